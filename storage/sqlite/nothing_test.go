package sqlite_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// broken is a database that cannot be opened, and counts who tries.
type broken struct{ tries int }

func (b *broken) Driver() sqldriver.Driver { return &sqlite3.SQLiteDriver{} }

func (b *broken) Connect(context.Context) (sqldriver.Conn, error) {
	b.tries++
	return nil, errors.New("broken")
}

// What needs no database does not ask for it.
func TestNothingToTry(t *testing.T) {
	file := new(broken)
	s, err := sqlite.New(sql.OpenDB(file), sqlite.Options{})
	require.NoError(t, err)
	long, a := creating(strings.Repeat("x", storage.MaxKey+1)), creating("a")

	records, err := s.Load(t.Context())
	require.NoError(t, err)
	require.Empty(t, records)
	_, swapped, err := s.CompareAndSwap(t.Context())
	require.NoError(t, err)
	require.True(t, swapped)
	_, _, err = s.CompareAndSwap(t.Context(), long)
	require.ErrorIs(t, err, storage.ErrKey)
	_, _, err = s.CompareAndSwap(t.Context(), a, a)
	require.ErrorIs(t, err, storage.ErrDuplicateKey)
	require.Zero(t, file.tries)
}

// A context that has ended ends all, even what had nothing to do.
func TestNothingWithAnEndedContext(t *testing.T) {
	file := new(broken)
	s, err := sqlite.New(sql.OpenDB(file), sqlite.Options{})
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Load(ended)
	require.ErrorIs(t, err, context.Canceled)
	for _, swaps := range [][]storage.Swap{nil, {creating("a")}} {
		_, swapped, err := s.CompareAndSwap(ended, swaps...)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, storage.ErrNotApplied)
		require.False(t, swapped)
	}
	require.Zero(t, file.tries)
}
