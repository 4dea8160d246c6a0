package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// Between its calls a series keeps a connection, which then is as it was.
func TestASeriesKeepsAConnection(t *testing.T) {
	s, db, _ := shared(t, wal)
	calls, end := s.Series(t.Context())
	for i := range 3 {
		_, swapped, err := s.CompareAndSwap(calls, creating(fmt.Sprint("key ", i)))
		require.NoError(t, err)
		require.True(t, swapped)
		require.Equal(t, 1, db.Stats().InUse)
	}
	_, err := s.Load(t.Context(), "key 0") // is none of its calls
	require.NoError(t, err)
	require.Equal(t, 1, db.Stats().InUse)
	end()
	require.Zero(t, db.Stats().InUse)
	for range db.Stats().OpenConnections {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		require.Equal(t, 20000, patience(t, conn))
	}
}

// Others may wait for a connection that is the last, of which the store cannot know.
func TestASeriesDoesNotKeepTheLastConnection(t *testing.T) {
	s, db, _ := shared(t, wal)
	db.SetMaxOpenConns(1)
	calls, end := s.Series(t.Context())
	defer end()
	_, _, err := s.CompareAndSwap(calls, creating("a"))
	require.NoError(t, err)
	require.Zero(t, db.Stats().InUse)
	db.SetMaxOpenConns(2)
	_, _, err = s.CompareAndSwap(calls, creating("b"))
	require.NoError(t, err)
	require.Equal(t, 1, db.Stats().InUse)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	_, _, err = s.CompareAndSwap(calls, creating("c"))
	require.NoError(t, err)
	require.Equal(t, 1, db.Stats().InUse)
}

// One for ever would be none that package sql can replace.
func TestASeriesChangesItsConnection(t *testing.T) {
	s, db, _ := shared(t, wal)
	calls, end := s.Series(t.Context())
	defer end()
	given := 0
	for range 3000 {
		_, err := s.Load(calls, "a")
		require.NoError(t, err)
		given += 1 - db.Stats().InUse
	}
	require.Equal(t, 3, given)
}

// A connection on which something failed is looked at by package sql, and so is one of a
// database that is closed.
func TestASeriesEndsWithAFailure(t *testing.T) {
	s, db, _ := shared(t, wal)
	calls, end := s.Series(t.Context())
	_, err := s.Load(calls, "a")
	require.NoError(t, err)
	_, err = db.Exec("DROP TABLE " + sqlite.DefaultTable)
	require.NoError(t, err)
	_, err = s.Load(calls, "a")
	require.ErrorContains(t, err, "no such table")
	require.Zero(t, db.Stats().InUse)
	require.NoError(t, s.Migrate(calls))
	require.Equal(t, 1, db.Stats().InUse)
	require.NoError(t, db.Close())
	end()
	require.Zero(t, db.Stats().OpenConnections)
	_, err = s.Load(calls, "a")
	require.ErrorContains(t, err, "closed")
}

// What is kept belongs to nobody after the end.
func TestACallAfterTheEnd(t *testing.T) {
	s, db, _ := shared(t, wal)
	calls, end := s.Series(t.Context())
	_, err := s.Load(calls, "a")
	require.NoError(t, err)
	end()
	_, err = s.Load(calls, "a")
	require.NoError(t, err)
	require.Zero(t, db.Stats().InUse)
}

// Nobody asks the pool, who would have looked at the context.
func TestAnEndedContextInASeries(t *testing.T) {
	s, _, _ := shared(t, wal)
	calls, end := s.Series(t.Context())
	defer end()
	_, err := s.Load(calls, "a")
	require.NoError(t, err)
	ended, cancel := context.WithCancel(calls)
	cancel()
	_, err = s.Load(ended, "a")
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Purge(ended, 1)
	require.ErrorIs(t, err, context.Canceled)
}

// Calls at once are none of a series, and no harm, whether they fail or not.
func TestCallsOfASeriesAtOnce(t *testing.T) {
	s, db, _ := shared(t, wal)
	_, err := db.Exec("CREATE TRIGGER refuse BEFORE INSERT ON " + sqlite.DefaultTable +
		" WHEN NEW.key = CAST('refused' AS BLOB) BEGIN SELECT RAISE(ABORT, 'no'); END")
	require.NoError(t, err)
	calls, end := s.Series(t.Context())
	var group sync.WaitGroup
	errs := make(chan error, 8)
	for i := range cap(errs) {
		group.Go(func() {
			var err error
			for j := 0; j < 50 && err == nil; j++ {
				_, _, err = s.CompareAndSwap(calls, creating(fmt.Sprint(i, " ", j)))
				s.CompareAndSwapBatch(calls, []storage.Swap{creating(fmt.Sprint(i, " ", j, " too"))}, []storage.Swap{creating("refused")})
			}
			errs <- err
		})
	}
	group.Wait()
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	end()
	require.Zero(t, db.Stats().InUse)
}

// A series saves what is the same for each call.
func TestASeriesPreparesOnce(t *testing.T) {
	s, db, a := openAround(t)
	db.SetMaxOpenConns(2)
	a.asked = nil
	calls, end := s.Series(t.Context())
	for i := range 5 {
		_, swapped, err := s.CompareAndSwap(calls, creating(fmt.Sprint(i)))
		require.NoError(t, err)
		require.True(t, swapped)
	}
	require.Equal(t, 1, a.prepared)
	require.Len(t, a.asked, 3, "how long to wait, not to, and the first swap")
	end()
	require.Len(t, a.asked, 4, "to wait again")
}

// While a connection is kept nothing is read, locked or held to be as it was.
func TestOthersBesideASeries(t *testing.T) {
	for name, options := range map[string]string{"plain": wal, "statement cache": wal + "&_stmt_cache_size=16"} {
		t.Run(name, func(t *testing.T) {
			s, _, dsn := shared(t, options)
			other, err := sql.Open("sqlite3", dsn)
			require.NoError(t, err)
			t.Cleanup(func() { other.Close() })
			calls, end := s.Series(t.Context())
			defer end()
			work := func(name string) {
				for i := range 3 { // the second time is prepared
					groups := [][]storage.Swap{{creating(fmt.Sprint(name, i))}, {creating(fmt.Sprint(name, i, "x")), creating(fmt.Sprint(name, i, "y"))}}
					for _, o := range s.CompareAndSwapBatch(calls, groups...) {
						require.Equal(t, storage.Outcome{Swapped: true}, o)
					}
					records, err := s.Load(calls, fmt.Sprint(name, i), "none")
					require.NoError(t, err)
					require.Equal(t, "new", string(records[0].State))
				}
			}
			for _, change := range []string{
				"ALTER TABLE " + sqlite.DefaultTable + " ADD COLUMN more INTEGER",
				"VACUUM",
				"DROP TABLE " + sqlite.DefaultTable,
			} {
				work(change)
				var busy, frames, done int
				require.NoError(t, other.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &done))
				require.Zero(t, busy+frames)
				_, err := other.Exec(change)
				require.NoError(t, err)
			}
			require.NoError(t, s.Migrate(calls))
			work("again")
		})
	}
}

// An engine under load gives every connection back when the load ends.
func TestAnEngineKeepsNoConnection(t *testing.T) {
	s, db, _ := shared(t, wal+"&_stmt_cache_size=16")
	e := storage.NewEngine(s, storage.EngineOptions{Budget: 20 * time.Second})
	var group sync.WaitGroup
	errs := make(chan error, 20)
	for range cap(errs) {
		group.Go(func() {
			var err error
			for i := 0; i < 50 && err == nil; i++ {
				_, err = e.Do(context.Background(), []string{"a"}, add)
			}
			errs <- err
		})
	}
	group.Wait()
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, 20*time.Second, time.Millisecond)
}
