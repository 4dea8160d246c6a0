package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// expired creates n records that expire in a minute.
func expired(t *testing.T, s *sqlite.Store, n int) {
	t.Helper()
	swaps := make([]storage.Swap, n)
	for i := range swaps {
		swaps[i] = creating(fmt.Sprint("expired ", i))
		swaps[i].TTL = time.Minute
	}
	_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
	require.NoError(t, err)
	require.True(t, swapped)
}

func count(t *testing.T, db *sql.DB) (rows int) {
	t.Helper()
	require.NoError(t, db.QueryRow("SELECT count(*) FROM "+sqlite.DefaultTable).Scan(&rows))
	return rows
}

// The query plan must not depend on the content or the statistics of the table.
func TestPurgeFindsRecordsByAnIndex(t *testing.T) {
	db := database(t, "_journal_mode=WAL&_synchronous=OFF")
	s := open(t, db, sqlite.Options{})
	for _, prepare := range []func(){
		func() {},
		func() { expired(t, s, 2000) },
		func() {
			_, err := db.Exec("ANALYZE")
			require.NoError(t, err)
		},
		func() {
			_, err := db.Exec("UPDATE " + sqlite.DefaultTable + " SET purge_at = NULL; ANALYZE")
			require.NoError(t, err)
		},
	} {
		prepare()
		for _, text := range []string{s.PostponeSQL(), s.PurgeSQL()} {
			var plan []string
			for _, row := range rows(t, db, "EXPLAIN QUERY PLAN "+text, time.Now().Add(time.Hour).UnixNano(), 10) {
				plan = append(plan, fmt.Sprint(row[3]))
			}
			require.Contains(t, plan, "SEARCH sluice_states USING COVERING INDEX sluice_states_purge_at (purge_at<?)")
			require.NotContains(t, strings.Join(plan, "\n"), "SCAN")
		}
	}
}

// rows returns the result of a query.
func rows(t *testing.T, db *sql.DB, query string, args ...any) (all [][]any) {
	t.Helper()
	found, err := db.Query(query, args...)
	require.NoError(t, err)
	defer found.Close()
	columns, err := found.Columns()
	require.NoError(t, err)
	for found.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		require.NoError(t, found.Scan(into...))
		all = append(all, row)
	}
	require.NoError(t, found.Err())
	return all
}

// A change of the index would write at least one more page. EXPLAIN lists the operations of a statement and
// their cursors.
func TestDecisionOnAnExistingRecordDoesNotChangeTheIndex(t *testing.T) {
	db := database(t, "_journal_mode=WAL&_synchronous=OFF")
	s := open(t, db, sqlite.Options{})
	var root int64
	require.NoError(t, db.QueryRow("SELECT rootpage FROM sqlite_schema WHERE name = 'sluice_states_purge_at'").Scan(&root))
	writes := func(text string) (operations []string) {
		cursor := any(nil)
		for _, row := range rows(t, db, "EXPLAIN "+text, 1, 2, 3, 4, 5, 6) {
			operation, p1, p2 := fmt.Sprint(row[1]), row[2], row[3]
			if operation == "OpenWrite" && p2 == root {
				cursor = p1
			}
			if cursor != nil && p1 == cursor && (operation == "IdxInsert" || operation == "IdxDelete") {
				operations = append(operations, operation)
			}
		}
		return operations
	}
	require.Empty(t, writes(s.ReplaceSQL()))
	require.Equal(t, []string{"IdxDelete", "IdxInsert"}, writes(s.ReplaceSoonerSQL()))
	require.Equal(t, []string{"IdxInsert"}, writes(s.CreateSQL()), "a new row adds an entry; an expired row keeps its entry")
}

// withHook returns a store that calls begin before each of its transactions. It also returns its database,
// with connections that do not wait for a lock.
func withHook(t *testing.T, clock func() time.Time, begin func()) (*sqlite.Store, *sql.DB) {
	a := &recordingDriver{file: "file:" + filepath.Join(t.TempDir(), "hook.db") + wal}
	through := sql.OpenDB(a)
	t.Cleanup(func() { through.Close() })
	s := open(t, through, sqlite.Options{Clock: clock})
	a.fail = func(text string) error {
		if text == "BEGIN IMMEDIATE" {
			begin()
		}
		return nil
	}
	db, err := sql.Open("sqlite3", strings.Replace(a.file, "_busy_timeout=20000", "_busy_timeout=0", 1))
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return s, db
}

func TestPurgeReleasesTheLockBetweenBatches(t *testing.T) {
	const batches = 5
	start, between := time.Unix(1e9, 0), func() {}
	s, db := withHook(t, func() time.Time { return start.Add(time.Hour) }, func() { between() })
	writer := open(t, db, sqlite.Options{Clock: func() time.Time { return start }})
	expired(t, writer, batches*sqlite.PurgeBatch+1)

	var remaining []int
	between = func() {
		_, swapped, err := writer.CompareAndSwap(t.Context(), creating(fmt.Sprint("between ", len(remaining))))
		require.NoError(t, err)
		require.True(t, swapped)
		remaining = append(remaining, count(t, db)-len(remaining)-1)
	}
	removed, err := s.Purge(t.Context(), 1_000_000)
	require.NoError(t, err)
	require.Equal(t, batches*sqlite.PurgeBatch+1, removed)
	var want []int
	for i := range batches + 1 {
		want = append(want, (batches-i)*sqlite.PurgeBatch+1)
	}
	require.Equal(t, want, remaining)
}

func TestCancelledPurgeReturnsTheNumberOfRemovedRecords(t *testing.T) {
	start, transactions := time.Unix(1e9, 0), 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, db := withHook(t, func() time.Time { return start.Add(time.Hour) }, func() {
		if transactions++; transactions == 2 {
			cancel()
		}
	})
	expired(t, open(t, db, sqlite.Options{Clock: func() time.Time { return start }}), 5*sqlite.PurgeBatch)
	removed, err := s.Purge(ctx, 5*sqlite.PurgeBatch)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2*sqlite.PurgeBatch, removed)
	require.Equal(t, 3*sqlite.PurgeBatch, count(t, db))
}

// rewrite replaces every record by one that expires in a minute.
func rewrite(t *testing.T, s *sqlite.Store, db *sql.DB) {
	t.Helper()
	var swaps []storage.Swap
	for _, row := range rows(t, db, "SELECT key, version FROM "+sqlite.DefaultTable) {
		swap := creating(string(row[0].([]byte)))
		swap.Old, swap.TTL = storage.Version(row[1].(int64)), time.Minute
		swaps = append(swaps, swap)
	}
	_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
	require.NoError(t, err)
	require.True(t, swapped)
}

// A purge sets purge_at of each rewritten record once, in bounded batches. Others can write between the batches.
func TestPurgePostponesRecordsThatWereRewritten(t *testing.T) {
	const records, of = 2*sqlite.PurgeBatch + 50, "SELECT count(*) FROM sluice_states WHERE "
	now, between := time.Unix(1e9, 0), func() {}
	clock := func() time.Time { return now }
	s, db := withHook(t, clock, func() { between() })
	writer := open(t, db, sqlite.Options{Clock: clock})
	expired(t, writer, records)
	now = now.Add(30 * time.Second)
	rewrite(t, writer, db)
	others := 0
	purge := func(max int, postponed ...int64) {
		t.Helper()
		var counts []int64
		between = func() {
			counts = append(counts, rows(t, db, of+"purge_at = expires_at")[0][0].(int64))
			_, swapped, err := writer.CompareAndSwap(t.Context(), creating(fmt.Sprint("other ", others)))
			require.NoError(t, err)
			require.True(t, swapped)
			others++
		}
		removed, err := s.Purge(t.Context(), max)
		require.NoError(t, err)
		require.Zero(t, removed)
		require.Equal(t, postponed, counts)
	}
	purge(1, 0) // nothing is due yet
	now = now.Add(30 * time.Second)
	purge(1, 0, sqlite.PurgeBatch, 2*sqlite.PurgeBatch)
	purge(1, records)
	now = now.Add(30 * time.Second)
	between = func() {}
	removed, err := s.Purge(t.Context(), 1_000_000)
	require.NoError(t, err)
	require.Equal(t, records, removed)
}

func TestMigrateAddsTheIndex(t *testing.T) {
	start := time.Unix(1e9, 0)
	db := database(t, "_journal_mode=WAL&_synchronous=OFF")
	s := open(t, db, sqlite.Options{Clock: func() time.Time { return start }})
	expired(t, s, 3)
	_, err := db.Exec("DROP INDEX sluice_states_purge_at")
	require.NoError(t, err)
	start = start.Add(time.Hour)

	removed, err := s.Purge(t.Context(), 10)
	require.ErrorContains(t, err, "sqlite: no such index: sluice_states_purge_at; call Store.Migrate first")
	require.Zero(t, removed)
	for range 2 {
		require.NoError(t, s.Migrate(t.Context()))
	}
	removed, err = s.Purge(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 3, removed)
}

// Purge reports that expired records are left, with the number of those that it removed.
func TestTriggerThatDropsAPurgeIsAnError(t *testing.T) {
	for trigger, removable := range map[string]int{
		"BEFORE DELETE ON sluice_states WHEN OLD.key < CAST('expired 2' AS BLOB) BEGIN SELECT RAISE(IGNORE)": 8,
		"BEFORE UPDATE ON sluice_states BEGIN SELECT RAISE(IGNORE)":                                          9,
	} {
		now := time.Now()
		db := database(t, "_journal_mode=WAL&_synchronous=OFF")
		s := open(t, db, sqlite.Options{Clock: func() time.Time { return now }})
		expired(t, s, 10)
		now = now.Add(2 * time.Minute)
		_, err := db.Exec("UPDATE sluice_states SET expires_at = NULL WHERE key = CAST('expired 5' AS BLOB) AND ?", removable == 9)
		require.NoError(t, err)
		_, err = db.Exec("CREATE TRIGGER x " + trigger + "; END")
		require.NoError(t, err)
		removed, err := s.Purge(t.Context(), 100)
		require.ErrorContains(t, err, "trigger")
		require.Equal(t, removable, removed)
	}
}
