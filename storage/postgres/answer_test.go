package postgres_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/storagetest"
)

// Without prepared statements the server answers in text, in a form of bytes that is
// a setting of the session.
func TestLawsInText(t *testing.T) {
	for _, mode := range []string{"exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			storagetest.Run(t, harness(pool(t, shared.Postgres(t).DSN()+"&bytea_output=escape&default_query_exec_mode="+mode)))
		})
	}
}

func TestEveryByteInText(t *testing.T) {
	every := make([]byte, 0, 256)
	for b := range 256 {
		every = append(every, byte(b))
	}
	for _, form := range []string{"hex", "escape"} {
		t.Run(form, func(t *testing.T) {
			s, _ := fresh(t, pool(t, shared.Postgres(t).DSN()+"&default_query_exec_mode=exec&bytea_output="+form))
			for _, state := range [][]byte{{}, every, []byte(`\x41`), []byte(`\\000\`), []byte("12\x013"), []byte(`\`)} {
				keeps(t, s, creating("\xff\x00" + string(state))[0], state)
			}
		})
	}
}

// keeps requires that a state is read as it was written, also after a conflict.
func keeps(t *testing.T, s *postgres.Store, swap storage.Swap, state []byte) {
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

// The states of a key that is loaded twice are two: who modifies one leaves the other
// as it is.
func TestRecordsOfEqualKeysShareNothing(t *testing.T) {
	for _, mode := range []string{"cache_statement", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			s, _ := fresh(t, pool(t, shared.Postgres(t).DSN()+"&default_query_exec_mode="+mode))
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

// The connection that a state came by is used again, and the state stays as it was.
func TestStatesOutliveTheirAnswer(t *testing.T) {
	for _, mode := range []string{"cache_statement", "exec"} {
		t.Run(mode, func(t *testing.T) {
			s, _ := fresh(t, pool(t, shared.Postgres(t).DSN()+"&pool_max_conns=1&default_query_exec_mode="+mode))
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
