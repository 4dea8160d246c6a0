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

// expired fills a store with n records that expire a minute after start.
func expired(t *testing.T, s storage.Batcher, n int) {
	t.Helper()
	groups := make([][]storage.Swap, n)
	for i := range groups {
		swap := creating(fmt.Sprint("expired ", i))
		swap.TTL = time.Minute
		groups[i] = []storage.Swap{swap}
	}
	for _, o := range s.CompareAndSwapBatch(t.Context(), groups...) {
		require.NoError(t, o.Err)
	}
}

func count(t *testing.T, db *sql.DB) (rows int) {
	t.Helper()
	require.NoError(t, db.QueryRow("SELECT count(*) FROM "+sqlite.DefaultTable).Scan(&rows))
	return rows
}

// The table may be empty, of records that all have expired or of which none has, and the
// database may know so or not.
func TestAPurgeFindsRecordsByAnIndex(t *testing.T) {
	db := database(t, "_journal_mode=WAL&_synchronous=OFF")
	s := open(t, db, sqlite.Options{})
	plan := func() string {
		rows, err := db.Query("EXPLAIN QUERY PLAN "+s.PurgeSQL(), time.Now().Add(time.Hour).UnixNano(), 10)
		require.NoError(t, err)
		defer rows.Close()
		var lines []string
		for rows.Next() {
			var id, parent, unused int
			var line string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &line))
			lines = append(lines, line)
		}
		require.NoError(t, rows.Err())
		return strings.Join(lines, "\n")
	}
	for _, prepare := range []func(){
		func() {},
		func() { expired(t, s, 2000) },
		func() {
			_, err := db.Exec("ANALYZE")
			require.NoError(t, err)
		},
		func() {
			_, err := db.Exec("UPDATE " + sqlite.DefaultTable + " SET expires_at = NULL; ANALYZE")
			require.NoError(t, err)
		},
	} {
		prepare()
		require.Contains(t, plan(), "USING COVERING INDEX sluice_states_expires_at (expires_at<?)")
		require.NotContains(t, plan(), "SCAN")
	}
}

// A purge asks its clock in each transaction, and here a writer comes between two of them
// that does not wait for the lock.
func TestAPurgeGivesTheLockBackBetweenBatches(t *testing.T) {
	const batches = 5
	dsn := "_journal_mode=WAL&_synchronous=OFF&_busy_timeout=0"
	start, between := time.Unix(1e9, 0), func() {}
	db := database(t, dsn)
	s := open(t, db, sqlite.Options{Clock: func() time.Time { between(); return start.Add(time.Hour) }})
	writer := open(t, db, sqlite.Options{Clock: func() time.Time { return start }})
	expired(t, writer, batches*sqlite.PurgeBatch+1)

	var left []int
	between = func() {
		_, swapped, err := writer.CompareAndSwap(t.Context(), creating(fmt.Sprint("between ", len(left))))
		require.NoError(t, err)
		require.True(t, swapped)
		left = append(left, count(t, db)-len(left)-1)
	}
	removed, err := s.Purge(t.Context(), 1_000_000)
	require.NoError(t, err)
	require.Equal(t, batches*sqlite.PurgeBatch+1, removed)
	var want []int
	for i := range batches + 1 {
		want = append(want, (batches-i)*sqlite.PurgeBatch+1)
	}
	require.Equal(t, want, left)
}

// A writer that waits for the lock gets it before the purge is over.
func TestAWriterGetsInWhileAPurgeGoesOn(t *testing.T) {
	const records = 100 * sqlite.PurgeBatch
	start := time.Unix(1e9, 0)
	db := database(t, "_journal_mode=WAL&_synchronous=OFF&_busy_timeout=20000")
	writer := open(t, db, sqlite.Options{Clock: func() time.Time { return start }})
	expired(t, writer, records)
	begun := make(chan struct{})
	transactions := 0
	s := open(t, db, sqlite.Options{Clock: func() time.Time {
		if transactions++; transactions == 3 {
			close(begun)
		}
		return start.Add(time.Hour)
	}})
	done := make(chan error, 1)
	go func() {
		_, err := s.Purge(context.Background(), records)
		done <- err
	}()
	select {
	case <-begun:
	case err := <-done:
		t.Fatalf("the purge was over in %d transactions, error %v", transactions, err)
	}
	_, swapped, err := writer.CompareAndSwap(t.Context(), creating("between"))
	require.NoError(t, err)
	require.True(t, swapped)
	require.Greater(t, count(t, db), 1, "the purge is over")
	require.NoError(t, <-done)
	require.Equal(t, 1, count(t, db))
}

func TestAPurgeThatIsCutShortSaysWhatItRemoved(t *testing.T) {
	start, transactions := time.Unix(1e9, 0), 0
	db := database(t, "_journal_mode=WAL&_synchronous=OFF")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	expired(t, open(t, db, sqlite.Options{Clock: func() time.Time { return start }}), 5*sqlite.PurgeBatch)
	s := open(t, db, sqlite.Options{Clock: func() time.Time {
		if transactions++; transactions == 2 {
			cancel()
		}
		return start.Add(time.Hour)
	}})
	removed, err := s.Purge(ctx, 5*sqlite.PurgeBatch)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2*sqlite.PurgeBatch, removed)
	require.Equal(t, 3*sqlite.PurgeBatch, count(t, db))
}

func TestMigrateAddsTheIndex(t *testing.T) {
	start := time.Unix(1e9, 0)
	db := database(t, "_journal_mode=WAL&_synchronous=OFF")
	s := open(t, db, sqlite.Options{Clock: func() time.Time { return start }})
	expired(t, s, 3)
	_, err := db.Exec("DROP INDEX sluice_states_expires_at")
	require.NoError(t, err)
	start = start.Add(time.Hour)

	removed, err := s.Purge(t.Context(), 10)
	require.ErrorContains(t, err, "sqlite: no such index: sluice_states_expires_at; call Store.Migrate first")
	require.Zero(t, removed)
	for range 2 {
		require.NoError(t, s.Migrate(t.Context()))
	}
	removed, err = s.Purge(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 3, removed)
}
