package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/sqlite"
)

const many = 64

// pairs are groups of two keys each, that create them.
func pairs(state string) [][]storage.Swap {
	var groups [][]storage.Swap
	for i := range many {
		a, b := creating(fmt.Sprint(i, "a")), creating(fmt.Sprint(i, "b"))
		a.New.State, b.New.State = []byte(state), []byte(state)
		groups = append(groups, []storage.Swap{a, b})
	}
	return groups
}

// A batch is one transaction, whatever becomes of its groups.
func TestABatchIsOneTransaction(t *testing.T) {
	var commits int
	name := fmt.Sprint("sqlite3 that counts ", time.Now().UnixNano())
	sql.Register(name, &sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
		c.RegisterCommitHook(func() int { commits++; return 0 })
		return nil
	}})
	db, err := sql.Open(name, "file:"+filepath.Join(t.TempDir(), "test.db")+wal)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	s := open(t, db, sqlite.Options{})
	groups := pairs("new")
	there := s.CompareAndSwapBatch(t.Context(), groups[7][1:])
	require.True(t, there[0].Swapped)

	commits = 0
	next := pairs("next")
	next[3] = []storage.Swap{creating(strings.Repeat("x", storage.MaxKey+1))}
	for i, o := range s.CompareAndSwapBatch(t.Context(), next...) {
		switch i {
		case 3:
			require.ErrorIs(t, o.Err, storage.ErrKey)
		case 7: // its first key was written already, and is undone
			require.Equal(t, storage.Outcome{Current: []storage.Record{{}, groups[7][1].New}}, o)
		default:
			require.Equal(t, storage.Outcome{Swapped: true}, o)
		}
	}
	require.Equal(t, 1, commits)
}

// The disk is full in the middle of a batch.
func TestABatchOnAFullDisk(t *testing.T) {
	for name, options := range map[string]string{"WAL": wal, "rollback journal": journal} {
		t.Run(name, func(t *testing.T) {
			s, db, _ := shared(t, options)
			db.SetMaxOpenConns(1)
			var pages int
			require.NoError(t, db.QueryRow("PRAGMA page_count").Scan(&pages))
			_, err := db.Exec(fmt.Sprint("PRAGMA max_page_count = ", pages+10))
			require.NoError(t, err)
			groups := pairs(strings.Repeat("x", 1000))
			for _, o := range s.CompareAndSwapBatch(t.Context(), groups...) {
				require.ErrorIs(t, o.Err, storage.ErrUnavailable)
				require.ErrorIs(t, o.Err, storage.ErrNotApplied)
				require.False(t, o.Swapped)
			}
			var rows int
			require.NoError(t, db.QueryRow("SELECT count(*) FROM "+sqlite.DefaultTable).Scan(&rows))
			require.Zero(t, rows)

			_, err = db.Exec(fmt.Sprint("PRAGMA max_page_count = ", pages+1000))
			require.NoError(t, err)
			for _, o := range s.CompareAndSwapBatch(t.Context(), groups...) {
				require.Equal(t, storage.Outcome{Swapped: true}, o)
			}
		})
	}
}

// A batch that does not get the lock says so of each group.
func TestABatchWaitsForTheLock(t *testing.T) {
	s, _, dsn := shared(t, wal)
	release := held(t, dsn)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	var outcomes []storage.Outcome
	within(t, soon, func() { outcomes = s.CompareAndSwapBatch(ctx, pairs("new")...) })
	for _, o := range outcomes {
		require.ErrorIs(t, o.Err, storage.ErrContended)
	}
	defer time.AfterFunc(soon, release).Stop()
	for _, o := range s.CompareAndSwapBatch(t.Context(), pairs("new")...) {
		require.Equal(t, storage.Outcome{Swapped: true}, o)
	}
}

// Without WAL a commit waits for those who read, as long as the user would.
func TestABatchThatCannotCommit(t *testing.T) {
	s, db, dsn := shared(t, strings.Replace(journal, "20000", "30", 1))
	db.SetMaxOpenConns(1)
	_, _, err := s.CompareAndSwap(t.Context(), creating("there"))
	require.NoError(t, err)
	other, err := sql.Open("sqlite3", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { other.Close() })
	rows, err := other.Query("SELECT key FROM " + sqlite.DefaultTable)
	require.NoError(t, err)
	defer rows.Close()
	require.True(t, rows.Next())
	for _, o := range s.CompareAndSwapBatch(t.Context(), two()...) {
		require.ErrorIs(t, o.Err, storage.ErrContended)
	}
	require.NoError(t, rows.Close())
	require.Equal(t, 1, db.Stats().OpenConnections)
	for _, o := range s.CompareAndSwapBatch(t.Context(), two()...) {
		require.Equal(t, storage.Outcome{Swapped: true}, o)
	}
}

// Whatever the settings of the user, decisions of two pools are counted.
func TestEverySettingCounts(t *testing.T) {
	const goroutines, each = 3, 25
	for name, options := range map[string]string{
		"WAL":                 "_journal_mode=WAL&_synchronous=NORMAL",
		"WAL, impatient":      "_journal_mode=WAL&_synchronous=OFF&_busy_timeout=0",
		"journal, impatient":  "_journal_mode=DELETE&_synchronous=OFF&_busy_timeout=0",
		"journal, persistent": "_journal_mode=PERSIST&_synchronous=OFF",
		"shared cache":        "_synchronous=OFF&cache=shared",
		"in memory":           "mode=memory&cache=shared",
		"statement cache":     "_journal_mode=WAL&_synchronous=OFF&_stmt_cache_size=4",
		"txlock":              "_journal_mode=WAL&_synchronous=OFF&_txlock=exclusive",
	} {
		t.Run(name, func(t *testing.T) {
			file := "file:" + filepath.Join(t.TempDir(), "counts.db") + "?" + options
			var stores []*sqlite.Store
			for range 2 {
				db, err := sql.Open("sqlite3", file)
				require.NoError(t, err)
				t.Cleanup(func() { db.Close() })
				stores = append(stores, open(t, db, sqlite.Options{}))
			}
			errs := make(chan error, len(stores)*goroutines*each)
			var group sync.WaitGroup
			for _, s := range stores {
				e := storage.NewEngine(s, storage.EngineOptions{Budget: 30 * time.Second})
				for range goroutines {
					group.Go(func() {
						for range each {
							_, err := e.Do(context.Background(), []string{"a", "b"}, add)
							errs <- err
						}
					})
				}
			}
			group.Wait()
			close(errs)
			var all error
			for err := range errs {
				all = errors.Join(all, err)
			}
			require.NoError(t, all)
			records, err := stores[0].Load(t.Context(), "a", "b")
			require.NoError(t, err)
			for _, r := range records {
				require.EqualValues(t, len(stores)*goroutines*each, binary.BigEndian.Uint64(r.State))
			}
		})
	}
}

// A process dies in the middle of its spending: what it wrote of a group is all
// there, or nothing of it, and the next one goes on.
func TestAProcessDies(t *testing.T) {
	s, _, dsn := shared(t, wal)
	for range 3 {
		count := func() (a, b uint64) {
			records, err := s.Load(t.Context(), "a", "b")
			require.NoError(t, err)
			if records[0].Version != 0 {
				a, b = binary.BigEndian.Uint64(records[0].State), binary.BigEndian.Uint64(records[1].State)
			}
			return a, b
		}
		before, _ := count()
		cmd := another(t, "spend for ever", dsn)
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool { a, _ := count(); return a >= before+10 }, 20*time.Second, time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		a, b := count()
		require.Equal(t, a, b)
		e := storage.NewEngine(s, storage.EngineOptions{Budget: 20 * time.Second})
		_, err := e.Do(t.Context(), []string{"a", "b"}, add)
		require.NoError(t, err)
	}
}
