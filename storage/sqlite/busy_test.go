package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// The user may set busy_timeout of one connection of the pool at any time.
func TestConnectionsKeepTheirBusyTimeout(t *testing.T) {
	for _, options := range []string{wal, wal + "&_stmt_cache_size=16"} {
		s, db, _ := newStore(t, options)
		db.SetMaxOpenConns(2)
		db.SetMaxIdleConns(2)
		a, err := db.Conn(t.Context())
		require.NoError(t, err)
		b, err := db.Conn(t.Context())
		require.NoError(t, err)
		for i, ms := range []int{20000, 77, 0, 5, 60, 0} {
			a, b = b, a
			_, err := a.ExecContext(t.Context(), fmt.Sprint("PRAGMA busy_timeout = ", ms))
			require.NoError(t, err)
			require.NoError(t, a.Close()) // now it is the only free one
			swap(t, s, creating(fmt.Sprint("key ", i)))
			a, err = db.Conn(t.Context())
			require.NoError(t, err)
			require.Equal(t, ms, busyTimeout(t, a))
		}
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	}
}

// The busy_timeout of the connections is 20 seconds. Without it, Migrate and Purge wait all the same.
func TestContextEndsTheWaitForTheLock(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips tests that wait for a lock")
	}
	const soon = 500 * time.Millisecond // long enough to reach the lock on a busy machine
	for name, options := range map[string]string{"WAL": wal, "rollback journal": journal, "wrapped": wal, "no busy_timeout": strings.Replace(wal, "20000", "0", 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, db, dsn := newStore(t, options)
			if name == "wrapped" {
				db = sql.OpenDB(&recordingDriver{file: dsn})
				t.Cleanup(func() { db.Close() })
				s = storeOn(t, db, sqlite.Options{})
			}
			missing := storeOn(t, db, sqlite.Options{Table: "missing"})
			swapOne := func(ctx context.Context) error { _, _, err := s.CompareAndSwap(ctx, creating("a")); return err }
			release := lock(t, dsn)
			for call, do := range map[string]func(context.Context) error{
				"migrate":          missing.Migrate,
				"purge":            func(ctx context.Context) error { _, err := s.Purge(ctx, 1); return err },
				"swap":             swapOne,
				"swap, cancelled":  swapOne,
				"load, by journal": func(ctx context.Context) error { _, _, err := s.Load(ctx, "a"); return err },
			} {
				waits := name != "no busy_timeout" || call == "migrate" || call == "purge"
				if !waits || name != "rollback journal" && call == "load, by journal" { // with WAL, readers do not wait
					continue
				}
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				want := context.DeadlineExceeded
				if call == "swap, cancelled" {
					ctx, cancel = context.WithCancel(t.Context())
					defer time.AfterFunc(soon, cancel).Stop()
					want = context.Canceled
				}
				began := time.Now()
				err := do(ctx)
				require.Less(t, time.Since(began), soon+slack)
				require.ErrorIs(t, err, storage.ErrContended, call)
				require.ErrorIs(t, err, want, call)
			}
			defer time.AfterFunc(soon, release).Stop()
			require.NoError(t, missing.Migrate(t.Context()))
			swap(t, s, creating("a"))
		})
	}
}

// Without WAL, a commit waits for readers until the busy_timeout.
func TestCommitFailsWhileAReaderHoldsTheLock(t *testing.T) {
	s, db, dsn := newStore(t, strings.Replace(journal, "20000", "30", 1))
	db.SetMaxOpenConns(1)
	add(t, s, "a")
	rows, err := openDB(t, dsn).Query("SELECT key FROM " + sqlite.DefaultTable)
	require.NoError(t, err)
	defer rows.Close()
	require.True(t, rows.Next())
	require.ErrorIs(t, s.Transact(t.Context(), nil, adding("a"), adding("b")), storage.ErrContended)
	require.NoError(t, rows.Close())
	require.Equal(t, 1, db.Stats().OpenConnections)
	require.NoError(t, s.Transact(t.Context(), nil, adding("a"), adding("b")))
	require.Equal(t, []uint64{2, 1}, numbers(t, s, "a", "b"))
}
