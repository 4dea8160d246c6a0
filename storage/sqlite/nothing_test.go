package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
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

func (b *broken) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

func (b *broken) Connect(context.Context) (driver.Conn, error) {
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
	outcomes := s.CompareAndSwapBatch(t.Context(), nil, []storage.Swap{long}, []storage.Swap{})
	require.Equal(t, storage.Outcome{Swapped: true}, outcomes[0])
	require.ErrorIs(t, outcomes[1].Err, storage.ErrKey)
	require.Equal(t, storage.Outcome{Swapped: true}, outcomes[2])
	require.Empty(t, s.CompareAndSwapBatch(t.Context()))
	require.Zero(t, file.tries)
}

// A group of nothing swaps, whatever becomes of its neighbours.
func TestNothingBesideTrouble(t *testing.T) {
	file := new(broken)
	s, err := sqlite.New(sql.OpenDB(file), sqlite.Options{})
	require.NoError(t, err)
	outcomes := s.CompareAndSwapBatch(t.Context(), nil, []storage.Swap{creating("a")})
	require.Equal(t, storage.Outcome{Swapped: true}, outcomes[0])
	require.ErrorContains(t, outcomes[1].Err, "broken")
	require.ErrorIs(t, outcomes[1].Err, storage.ErrNotApplied)
	require.Equal(t, 1, file.tries)
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
	for _, o := range s.CompareAndSwapBatch(ended, nil, []storage.Swap{creating("a")}) {
		require.ErrorIs(t, o.Err, context.Canceled)
		require.ErrorIs(t, o.Err, storage.ErrNotApplied)
		require.False(t, o.Swapped)
	}
	require.Zero(t, file.tries)
}
