package storage_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

func ExampleBeginBatch() {
	alice := storage.Swap{Key: "alice", New: storage.Record{Version: storage.NewVersion()}}
	state := storage.Swap{Key: "bob", New: storage.Record{State: []byte("without a version")}}
	groups := [][]storage.Swap{{alice}, {state}, {}}
	outcomes, open := storage.BeginBatch(context.Background(), groups)
	fmt.Println("to be tried:", open)
	fmt.Println(outcomes[1].Err)
	fmt.Println(outcomes[2].Swapped)
	// Output:
	// to be tried: [0]
	// storage: not a swap: key "bob" has a state of 17 bytes and no version
	// true
}

func TestBeginBatch(t *testing.T) {
	long := swap(strings.Repeat("x", storage.MaxKey+1))
	outcomes, open := storage.BeginBatch(t.Context(), [][]storage.Swap{{swap("a")}, nil, {long}, {swap("b"), swap("c")}})
	require.Equal(t, []int{0, 3}, open)
	require.Equal(t, storage.Outcome{Swapped: true}, outcomes[1])
	require.ErrorIs(t, outcomes[2].Err, storage.ErrKey)
	for _, i := range open {
		require.Zero(t, outcomes[i])
	}
}

func TestBeginBatchOfNothing(t *testing.T) {
	outcomes, open := storage.BeginBatch(t.Context(), nil)
	require.Empty(t, outcomes)
	require.Empty(t, open)
}

func TestBeginBatchOfAKeyTwice(t *testing.T) {
	outcomes, open := storage.BeginBatch(t.Context(), [][]storage.Swap{{swap("a")}, {}, {swap("a")}})
	require.Empty(t, open)
	for _, o := range outcomes {
		require.ErrorIs(t, o.Err, storage.ErrDuplicateKey)
		require.False(t, o.Swapped)
	}
}

// An ended context ends all, even what had nothing to do, and leaves alone who was
// wrong before.
func TestBeginBatchWithAnEndedContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	outcomes, open := storage.BeginBatch(ended, [][]storage.Swap{{swap("a")}, {}, {{Key: "b", TTL: -1}}})
	require.Empty(t, open)
	for _, o := range outcomes {
		require.ErrorIs(t, o.Err, storage.ErrNotApplied)
		require.False(t, o.Swapped)
	}
	require.ErrorIs(t, outcomes[0].Err, context.Canceled)
	require.ErrorIs(t, outcomes[1].Err, context.Canceled)
	require.ErrorIs(t, outcomes[2].Err, storage.ErrSwap)
	require.NotErrorIs(t, outcomes[2].Err, context.Canceled)
}
