package postgres_test

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// The next statements on the connection must not change the returned states.
func TestStatesAreValidAfterFurtherStatements(t *testing.T) {
	for _, mode := range []string{"cache_statement", "exec"} {
		t.Run(mode, func(t *testing.T) {
			s, _ := newStore(t, newPool(t, shared.Postgres(t).DSN()+"&pool_max_conns=1&default_query_exec_mode="+mode))
			a, b := creating("a")[0], creating("b")[0]
			a.New.State, b.New.State = bytes.Repeat([]byte("a"), 1000), bytes.Repeat([]byte("b"), 1000)
			_, _, err := s.CompareAndSwap(t.Context(), a, b)
			require.NoError(t, err)
			loaded, _, err := s.Load(t.Context(), "a")
			require.NoError(t, err)
			current, _, err := s.CompareAndSwap(t.Context(), a)
			require.NoError(t, err)
			for range 20 {
				_, _, err = s.Load(t.Context(), "b")
				require.NoError(t, err)
			}
			require.Equal(t, a.New.State, loaded[0].State)
			require.Equal(t, a.New.State, current[0].State)
		})
	}
}

// The statements ignore other columns of the table, whatever their names are.
func TestTablesMayHaveOtherColumns(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	for _, name := range []string{
		"absent", "args", "at", "batch", "changes", "clock", "cost", "count", "expires", "keys", "margin", "name", "new", "next", "now", "old",
		"old_state", "old_version", "op", "place", "program", "reply", "setting", "shadows", "times", "ttl", "until", "due", "removed",
	} {
		_, err := p.Exec(ctx, "ALTER TABLE "+table+" ADD COLUMN "+pgx.Identifier{name}.Sanitize()+" text")
		require.NoError(t, err)
	}
	for _, keys := range [][]string{{"a", "b"}, {"a", "b"}, {"c", "d"}} { // the records are created, and then replaced
		for _, b := range []*driver.Batch{requestEach(t, keys[0]), requestEach(t, keys...), oneRequest(t, keys...)} {
			s.Run(ctx, b)
			require.NoError(t, b.Err)
		}
	}
	swaps := creating("e", "f")
	for _, swaps := range [][]storage.Swap{swaps, updating(swaps)} {
		_, swapped, err := s.CompareAndSwap(ctx, swaps...)
		require.NoError(t, err)
		require.True(t, swapped)
	}
	records, _, err := s.Load(ctx, "a", "e")
	require.NoError(t, err)
	require.Equal(t, []bool{true, true}, exist(records))
	_, err = p.Exec(ctx, "UPDATE "+table+" SET expires_at = now(), purge_at = now()")
	require.NoError(t, err)
	removed, err := s.Purge(ctx, 100)
	require.NoError(t, err)
	require.Equal(t, 6, removed)
}
