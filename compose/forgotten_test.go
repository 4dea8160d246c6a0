package compose_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/tokenbucket"
)

// swapOnly hides that a store can be updated in place.
type swapOnly struct{ storage.Store }

// A rule whose state is remembered does not stand for one whose state is not.
func TestWhatIsForgottenIsGivenBackAndReset(t *testing.T) {
	ctx, start := context.Background(), time.Unix(1e9, 0)
	p, err := tokenbucket.New(tokenbucket.Options{Limit: algo.Per(10, time.Hour)})
	require.NoError(t, err)
	self := func(s string) string { return s }
	l, err := compose.Options[string]{DenialCacheSize: 1, Clock: func() time.Time { return start }}.New(swapOnly{new(memory.Store)},
		compose.Rule[string]{Name: "one", Key: self, Policy: p},
		compose.Rule[string]{Name: "two", Key: self, Policy: p})
	require.NoError(t, err)
	left := func() (left []int64) {
		d, err := l.Peek(ctx, "k")
		require.NoError(t, err)
		for _, r := range d.Results {
			left = append(left, r.Remaining)
		}
		return left
	}

	_, err = l.AllowN(ctx, "k", 6)
	require.NoError(t, err)
	require.Equal(t, []int64{4, 4}, left())
	_, err = l.Refund(ctx, "k", 2)
	require.NoError(t, err)
	require.Equal(t, []int64{6, 6}, left())
	require.NoError(t, l.Reset(ctx, "k"))
	require.Equal(t, []int64{10, 10}, left())
}
