package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/sqlite"
)

func TestNewRefusesInvalidOptions(t *testing.T) {
	_, err := sqlite.New(nil, sqlite.Options{})
	require.ErrorContains(t, err, "must not be nil")
	_, err = sqlite.New(new(sql.DB), sqlite.Options{Table: "a\x00b"})
	require.ErrorContains(t, err, "must not contain a NUL byte")
}

func TestMigrateRefusesATableWithoutTheColumns(t *testing.T) {
	for columns, missing := range map[string]string{
		"id INTEGER": "key",
		"key BLOB NOT NULL PRIMARY KEY, version INTEGER NOT NULL, state BLOB NOT NULL, expires_at INTEGER": "purge_at",
	} {
		db := openDB(t, newFile(t, wal))
		mustExec(t, db, "CREATE TABLE sluice_states ("+columns+")")
		s := storeOn(t, db, sqlite.Options{})
		const remedy = "; set another table in Options.Table or use another database, or drop this table if it holds only limits; then call Store.Migrate"
		require.EqualError(t, s.Migrate(t.Context()), "sqlite: table sluice_states: no such column: "+missing+remedy)
		_, _, err := s.CompareAndSwap(t.Context(), creating("a"))
		require.ErrorContains(t, err, remedy)
	}
}

// A retry does not help.
func TestMissingTableNeedsMigrate(t *testing.T) {
	s := storeOn(t, openDB(t, newFile(t, wal)), sqlite.Options{})
	_, _, swapErr := s.CompareAndSwap(t.Context(), creating("a"))
	require.ErrorIs(t, swapErr, storage.ErrNotApplied)
	_, _, loadErr := s.Load(t.Context(), "a")
	_, purgeErr := s.Purge(t.Context(), 1)
	_, _, listErr := s.List(t.Context(), "", "", 1)
	for _, err := range []error{swapErr, loadErr, purgeErr, listErr} {
		require.ErrorContains(t, err, "sqlite: no such table: sluice_states; call Store.Migrate first")
		require.ErrorAs(t, err, new(sqlite3.Error))
		require.NotErrorIs(t, err, storage.ErrUnavailable)
		require.NotErrorIs(t, err, storage.ErrContended)
	}
}

// SQLite does not wait if two connections switch a new file to WAL at the same time. Nobody retries a Migrate or a Purge, so
// they wait for the lock even without a busy_timeout.
func TestConcurrentStoresCreateOneFile(t *testing.T) {
	const stores = 16
	for name, options := range modes {
		for _, timeout := range []string{"20000", "0"} {
			dsn := newFile(t, strings.NewReplacer("OFF", "NORMAL", "20000", timeout).Replace(options))
			var group sync.WaitGroup
			begin := make(chan struct{})
			for range stores {
				s := storeOn(t, openDB(t, dsn), sqlite.Options{})
				group.Go(func() {
					<-begin
					assert.NoError(t, s.Migrate(t.Context()), name)
					_, err := s.Purge(t.Context(), 10)
					assert.NoError(t, err, name)
				})
			}
			close(begin)
			group.Wait()
		}
	}
}

// expire creates n records that expire in a minute.
func expire(t *testing.T, s *sqlite.Store, n int) {
	t.Helper()
	swaps := make([]storage.Swap, n)
	for i := range swaps {
		swaps[i] = creating(fmt.Sprint("expired ", i))
		swaps[i].TTL = time.Minute
	}
	swap(t, s, swaps...)
}

// The query plan must not depend on the content or the statistics of the table.
func TestPurgeFindsRecordsByAnIndex(t *testing.T) {
	s, db, _ := newStore(t, wal)
	for _, prepare := range []func(){
		func() {},
		func() { expire(t, s, 2000) },
		func() { mustExec(t, db, "ANALYZE") },
		func() { mustExec(t, db, "UPDATE "+sqlite.DefaultTable+" SET purge_at = NULL; ANALYZE") },
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

// purging is a store whose purge calls between before each of its transactions, and another store on the same database that
// does not wait for a lock.
type purging struct {
	*sqlite.Store
	db      *sql.DB
	writer  *sqlite.Store
	now     time.Time
	between func()
}

func newPurging(t *testing.T) *purging {
	p := &purging{now: time.Unix(1e9, 0), between: func() {}}
	clock := sqlite.Options{Clock: func() time.Time { return p.now }}
	s, _, a := openRecording(t, clock)
	a.fail = func(text string) error {
		if text == "BEGIN IMMEDIATE" {
			p.between()
		}
		return nil
	}
	p.db = openDB(t, strings.Replace(a.file, "20000", "0", 1))
	p.Store, p.writer = s, open(t, p.db, clock)
	return p
}

// Others can write between the batches. If the context ends there, Purge returns the number of removed records.
func TestPurgeReleasesTheLockBetweenBatches(t *testing.T) {
	const batches, batch = 5, sqlite.PurgeBatch
	p := newPurging(t)
	expire(t, p.writer, batches*batch+1)
	p.now = p.now.Add(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var remaining []int
	p.between = func() {
		swap(t, p.writer, creating(fmt.Sprint("between ", len(remaining))))
		stored := rows(t, p.db, "SELECT count(*) FROM sluice_states")[0][0].(int64)
		remaining = append(remaining, int(stored)-len(remaining)-1)
		if len(remaining) == 2 {
			cancel()
		}
	}
	removed, err := p.Purge(ctx, 1_000_000)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2*batch, removed)
	removed, err = p.Purge(t.Context(), 1_000_000)
	require.NoError(t, err)
	require.Equal(t, 3*batch+1, removed)
	require.Equal(t, []int{5*batch + 1, 4*batch + 1, 3*batch + 1, 2*batch + 1, batch + 1, 1}, remaining)
}

// A purge sets purge_at of each rewritten record once, in bounded batches.
func TestPurgePostponesRecordsThatWereRewritten(t *testing.T) {
	const records = 2*sqlite.PurgeBatch + 50
	p := newPurging(t)
	expire(t, p.writer, records)
	p.now = p.now.Add(30 * time.Second)
	var again []storage.Swap
	for _, row := range rows(t, p.db, "SELECT key, version FROM sluice_states") {
		next := creating(string(row[0].([]byte)))
		next.Old, next.TTL = storage.Version(row[1].(int64)), time.Minute
		again = append(again, next)
	}
	swap(t, p.writer, again...)
	for _, c := range []struct {
		passed    time.Duration
		postponed []int64 // before each transaction
	}{
		{0, []int64{0}}, // nothing is due yet
		{30 * time.Second, []int64{0, sqlite.PurgeBatch, 2 * sqlite.PurgeBatch}},
		{0, []int64{records}},
	} {
		p.now = p.now.Add(c.passed)
		var counts []int64
		p.between = func() {
			counts = append(counts, rows(t, p.db, "SELECT count(*) FROM sluice_states WHERE purge_at = expires_at")[0][0].(int64))
		}
		removed, err := p.Purge(t.Context(), 1)
		require.NoError(t, err)
		require.Zero(t, removed)
		require.Equal(t, c.postponed, counts)
	}
	p.now, p.between = p.now.Add(30*time.Second), func() {}
	removed, err := p.Purge(t.Context(), 1_000_000)
	require.NoError(t, err)
	require.Equal(t, records, removed)
}

func TestMigrateAddsTheIndex(t *testing.T) {
	p := newPurging(t)
	expire(t, p.writer, 3)
	mustExec(t, p.db, "DROP INDEX sluice_states_purge_at")
	p.now = p.now.Add(time.Hour)
	removed, err := p.Purge(t.Context(), 10)
	require.ErrorContains(t, err, "sqlite: no such index: sluice_states_purge_at; call Store.Migrate first")
	require.Zero(t, removed)
	for range 2 {
		require.NoError(t, p.Migrate(t.Context()))
	}
	removed, err = p.Purge(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 3, removed)
}

// SQLite cannot rename an index, so the one of a renamed table keeps its name.
func TestMigrateReportsTheIndexOfARenamedTable(t *testing.T) {
	s, db, _ := newStore(t, wal)
	mustExec(t, db, "ALTER TABLE sluice_states RENAME TO former")
	require.EqualError(t, s.Migrate(t.Context()), "sqlite: drop the index sluice_states_purge_at, which is on another table or column: no such index: sluice_states_purge_at")
	mustExec(t, db, "DROP INDEX sluice_states_purge_at")
	require.NoError(t, s.Migrate(t.Context()))
	_, err := s.Purge(t.Context(), 10)
	require.NoError(t, err)
}

// Purge reports that expired records are left, with the number of those that it removed.
func TestTriggerThatDropsAPurgeIsAnError(t *testing.T) {
	for trigger, removable := range map[string]int{
		"BEFORE DELETE ON sluice_states WHEN OLD.key < CAST('expired 2' AS BLOB) BEGIN SELECT RAISE(IGNORE)": 8,
		"BEFORE UPDATE ON sluice_states BEGIN SELECT RAISE(IGNORE)":                                          9,
	} {
		p := newPurging(t)
		expire(t, p.writer, 10)
		p.now = p.now.Add(2 * time.Minute)
		mustExec(t, p.db, "UPDATE sluice_states SET expires_at = NULL WHERE key = CAST('expired 5' AS BLOB) AND ?", removable == 9)
		mustExec(t, p.db, "CREATE TRIGGER x "+trigger+"; END")
		removed, err := p.Purge(t.Context(), 100)
		require.ErrorContains(t, err, "trigger")
		require.Equal(t, removable, removed)
	}
}
