package postgres_test

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
)

// Without prepared statements the reply is in text format. The format of bytea is a setting of the
// session.
func TestAllBytesAreReadInTextFormat(t *testing.T) {
	all := make([]byte, 0, 256)
	for b := range 256 {
		all = append(all, byte(b))
	}
	for _, form := range []string{"hex", "escape"} {
		t.Run(form, func(t *testing.T) {
			s, _ := newStore(t, newPool(t, shared.Postgres(t).DSN()+"&default_query_exec_mode=exec&bytea_output="+form))
			for _, state := range [][]byte{{}, all, []byte(`\x41`), []byte(`\\000\`), []byte("12\x013"), []byte(`\`)} {
				requireRoundTrip(t, s, creating("\xff\x00" + string(state))[0], state)
			}
		})
	}
}

// requireRoundTrip checks that Load and a conflict return the state that was written.
func requireRoundTrip(t *testing.T, s *postgres.Store, swap storage.Swap, state []byte) {
	t.Helper()
	swap.New.State = state
	_, swapped, err := s.CompareAndSwap(t.Context(), swap)
	require.NoError(t, err)
	require.True(t, swapped)
	current, swapped, err := s.CompareAndSwap(t.Context(), swap)
	require.NoError(t, err)
	require.False(t, swapped)
	require.Equal(t, state, current[0].State)
	records, err := s.Load(t.Context(), swap.Key)
	require.NoError(t, err)
	require.Equal(t, state, records[0].State)
}

// A caller may modify a returned state. The other states must not change.
func TestRecordsOfOneKeyShareNoMemory(t *testing.T) {
	for _, mode := range []string{"cache_statement", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			s, _ := newStore(t, newPool(t, shared.Postgres(t).DSN()+"&default_query_exec_mode="+mode))
			a := creating("a")
			_, _, err := s.CompareAndSwap(t.Context(), a...)
			require.NoError(t, err)
			records, err := s.Load(t.Context(), "a", "absent", "a")
			require.NoError(t, err)
			clear(records[0].State)
			require.Equal(t, []storage.Record{{}, a[0].New}, records[1:])
		})
	}
}

// The next statements on the connection must not change the returned states.
func TestStatesAreValidAfterFurtherStatements(t *testing.T) {
	for _, mode := range []string{"cache_statement", "exec"} {
		t.Run(mode, func(t *testing.T) {
			s, _ := newStore(t, newPool(t, shared.Postgres(t).DSN()+"&pool_max_conns=1&default_query_exec_mode="+mode))
			a, b := creating("a")[0], creating("b")[0]
			a.New.State, b.New.State = bytes.Repeat([]byte("a"), 1000), bytes.Repeat([]byte("b"), 1000)
			_, _, err := s.CompareAndSwap(t.Context(), a, b)
			require.NoError(t, err)
			loaded, err := s.Load(t.Context(), "a")
			require.NoError(t, err)
			current, _, err := s.CompareAndSwap(t.Context(), a)
			require.NoError(t, err)
			for range 20 {
				_, err = s.Load(t.Context(), "b")
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
	records, err := s.Load(ctx, "a", "e")
	require.NoError(t, err)
	require.Equal(t, []bool{true, true}, exist(records))
	_, err = p.Exec(ctx, "UPDATE "+table+" SET expires_at = now(), purge_at = now()")
	require.NoError(t, err)
	removed, err := s.Purge(ctx, 100)
	require.NoError(t, err)
	require.Equal(t, 6, removed)
}
