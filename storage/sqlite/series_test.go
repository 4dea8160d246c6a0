package sqlite_test

import (
	"context"
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
