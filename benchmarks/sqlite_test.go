package benchmarks

import (
	"context"
	"database/sql"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"github.com/sluice-go/sluice/storage/sqlite"
)

func sqliteWorks() []work {
	of := func(name string, keys int, synchronous string, goal float64) work {
		floor := sqliteUpsert(synchronous)
		contenders := []contender{sluiceOnSQLite(synchronous), floor, sqliteUpserts(synchronous)}
		if synchronous == "FULL" {
			contenders = append(contenders, oneFsync)
		}
		return work{
			area: "sqlite", name: name, keys: keys, goroutines: 64,
			contenders: contenders, goals: []ratio{{to: floor.name, goal: goal}},
		}
	}
	return []work{
		of("64 callers, one key, synchronous=NORMAL", 1, "NORMAL", 10),
		of("64 callers, 10,000 keys, synchronous=NORMAL", 10_000, "NORMAL", 2),
		of("64 callers, 10,000 keys, synchronous=FULL", 10_000, "FULL", 10),
	}
}

// sqliteDB is a database on disk, with the options that the README of sluice recommends and
// some more.
func sqliteDB(t testing.TB, more string) *sql.DB {
	db, err := sql.Open("sqlite3", "file:"+t.TempDir()+"/bench.db?_journal_mode=WAL&_busy_timeout=5000&_stmt_cache_size=16"+more)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func sluiceOnSQLite(synchronous string) contender {
	return contender{"sluice", func(t testing.TB, count int64, period time.Duration) decider {
		store, err := sqlite.New(sqliteDB(t, "&_synchronous="+synchronous), sqlite.Options{})
		if err == nil {
			err = store.Migrate(context.Background())
		}
		if err != nil {
			t.Fatal(err)
		}
		return oneRule(t, store, count, period)
	}}
}

// sqliteUpsert commits every decision on its own, on the one connection that is the
// quickest for it.
func sqliteUpsert(synchronous string) contender {
	return contender{"floor: one upsert each", func(t testing.TB, _ int64, _ time.Duration) decider {
		upsert := sqliteFloor(t, synchronous)
		return func(ctx context.Context, key string) (bool, error) {
			_, err := upsert.ExecContext(ctx, []byte(key), sqliteState)
			return true, err
		}
	}}
}

// sqliteUpserts commits what all callers ask who are there.
func sqliteUpserts(synchronous string) contender {
	return contender{"floor: upserts together", func(t testing.TB, count int64, _ time.Duration) decider {
		upsert := sqliteFloor(t, synchronous)
		return together(t, 1, count, func(ctx context.Context, keys []string) error {
			tx, err := upsert.db.Begin()
			if err != nil {
				return err
			}
			defer tx.Rollback()
			statement := tx.Stmt(upsert.Stmt)
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

// upserts is the statement of the floors, and its database.
type upserts struct {
	*sql.Stmt
	db *sql.DB
}

func sqliteFloor(t testing.TB, synchronous string) upserts {
	db := sqliteDB(t, "&_txlock=immediate&_synchronous="+synchronous)
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`CREATE TABLE floor (key BLOB NOT NULL PRIMARY KEY, version INTEGER NOT NULL, state BLOB NOT NULL) STRICT, WITHOUT ROWID`); err != nil {
		t.Fatal(err)
	}
	statement, err := db.Prepare(`INSERT INTO floor VALUES (?, 1, ?) ON CONFLICT (key) DO UPDATE SET version = version + 1, state = excluded.state`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { statement.Close() })
	return upserts{statement, db}
}
