package benchmarks

import (
	"context"
	"database/sql"
	"os"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"github.com/sluice-go/sluice/storage/sqlite"
)

func sqliteWorkloads() []work {
	of := func(processes, callers, keys int, name, synchronous string, goal float64) work {
		floor := sqliteUpsert(synchronous)
		limiters := []serverLimiter{sluiceOnSQLite(synchronous), floor}
		if processes == 1 {
			limiters = append(limiters, sqliteUpserts(synchronous))
		}
		if synchronous == "FULL" {
			limiters = append(limiters, oneFsync)
		}
		return row("sqlite", processes, callers, keys, name+", synchronous="+synchronous, []ratio{{to: floor.name, goal: goal}}, limiters...)
	}
	return []work{
		of(1, 64, 1, "one key", "NORMAL", 8.2),
		of(1, 64, 10_000, "10,000 keys", "NORMAL", 1.6),
		of(1, 64, 10_000, "10,000 keys", "FULL", 8.9),
		of(4, 4, 1, "one key", "NORMAL", 3),
		of(4, 4, 1000, "1,000 keys", "NORMAL", 3),
	}
}

// sqliteDB opens a database on disk, with the options that docs/recipes.md recommends and
// those in more. The processes of a fleet share its file.
func sqliteDB(t testing.TB, file, more string) *sql.DB {
	dir := os.Getenv(sqliteDir)
	if dir == "" {
		dir = t.TempDir()
	}
	db, err := sql.Open("sqlite3", "file:"+dir+"/"+file+"?_journal_mode=WAL&_busy_timeout=5000&_stmt_cache_size=16"+more)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func sluiceOnSQLite(synchronous string) serverLimiter {
	return serverLimiter{name: "sluice", open: func(t testing.TB, count int64, period time.Duration) decideFunc {
		store, err := sqlite.New(sqliteDB(t, "sluice.db", "&_synchronous="+synchronous), sqlite.Options{})
		if err == nil {
			err = store.Migrate(context.Background())
		}
		must(t, err)
		return oneRule(t, store, count, period)
	}}
}

// sqliteUpsert commits every call separately, on one connection, which is the fastest way.
func sqliteUpsert(synchronous string) serverLimiter {
	return serverLimiter{name: "floor: one upsert each", open: func(t testing.TB, _ int64, _ time.Duration) decideFunc {
		_, upsert := sqliteFloor(t, synchronous)
		return func(ctx context.Context, key string) (bool, error) {
			_, err := upsert.ExecContext(ctx, []byte(key), sqliteState)
			return true, err
		}
	}}
}

// sqliteUpserts commits the calls of all waiting callers together.
func sqliteUpserts(synchronous string) serverLimiter {
	return serverLimiter{name: "floor: upserts, batched", open: func(t testing.TB, count int64, _ time.Duration) decideFunc {
		db, upsert := sqliteFloor(t, synchronous)
		return batched(t, 1, count, func(ctx context.Context, keys []string) error {
			tx, err := db.Begin()
			if err != nil {
				return err
			}
			defer tx.Rollback()
			statement := tx.Stmt(upsert)
			for _, key := range keys {
				if _, err := statement.ExecContext(ctx, []byte(key), sqliteState); err != nil {
					return err
				}
			}
			return tx.Commit()
		})
	}}
}

var sqliteState = make([]byte, 30)

// sqliteFloor returns the statement of the floors and its database.
func sqliteFloor(t testing.TB, synchronous string) (db *sql.DB, upsert *sql.Stmt) {
	db = sqliteDB(t, "floor.db", "&_txlock=immediate&_synchronous="+synchronous)
	db.SetMaxOpenConns(1)
	_, err := db.Exec(`CREATE TABLE IF NOT EXISTS floor (key BLOB NOT NULL PRIMARY KEY, version INTEGER NOT NULL, state BLOB NOT NULL) STRICT, WITHOUT ROWID`)
	must(t, err)
	upsert, err = db.Prepare(`INSERT INTO floor VALUES (?, 1, ?) ON CONFLICT (key) DO UPDATE SET version = version + 1, state = excluded.state`)
	must(t, err)
	t.Cleanup(func() { upsert.Close() })
	return db, upsert
}
