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

// unreachable is a database that cannot be opened. It counts the attempts.
type unreachable struct{ attempts int }

func (u *unreachable) Driver() sqldriver.Driver { return &sqlite3.SQLiteDriver{} }

func (u *unreachable) Connect(context.Context) (sqldriver.Conn, error) {
	u.attempts++
	return nil, errors.New("unreachable")
}

func TestInvalidEmptyAndCancelledCallsDoNotConnect(t *testing.T) {
	db := new(unreachable)
	s, err := sqlite.New(sql.OpenDB(db), sqlite.Options{})
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	_, _, err = s.Load(t.Context())
	require.NoError(t, err)
	_, _, err = s.Load(ended)
	require.ErrorIs(t, err, context.Canceled)

	_, swapped, err := s.CompareAndSwap(t.Context())
	require.NoError(t, err)
	require.True(t, swapped)
	_, _, err = s.CompareAndSwap(t.Context(), creating(strings.Repeat("x", storage.MaxKey+1)))
	require.ErrorIs(t, err, storage.ErrKey)
	for _, swaps := range [][]storage.Swap{nil, {creating("a")}} {
		_, swapped, err := s.CompareAndSwap(ended, swaps...)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, storage.ErrNotApplied)
		require.False(t, swapped)
	}

	require.NoError(t, s.Transact(t.Context(), nil))
	err = s.Transact(ended, nil, adding("a"))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.Zero(t, db.attempts)
	err = s.Transact(t.Context(), nil, adding("a"))
	require.ErrorContains(t, err, "unreachable")
	require.ErrorIs(t, err, storage.ErrNotApplied)
}
