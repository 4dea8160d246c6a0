package suggest_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/suggest"
)

func TestLogRefusesRequestsOutOfOrder(t *testing.T) {
	log := newLog(t, evenly(1, 0))
	_, err := log.Add(start.Add(-1), []byte("a"))
	require.ErrorContains(t, err, "comes after one at")
}

// TestRunEndsWithItsContext: a search of one key and one of many keys both end.
func TestRunEndsWithItsContext(t *testing.T) {
	for _, keys := range []int{1, 10_000} {
		var requests []request
		for i := range 50_000 {
			requests = append(requests, after(time.Duration(i), strconv.Itoa(i%keys)))
		}
		s := search(t, requests, "gcra ?/m", "100%", suggest.OfRequests)
		ctx, cancel := context.WithCancel(t.Context())
		replays := 0
		err := suggest.Run(ctx, func() {
			if replays++; replays == 3 {
				cancel()
			}
		}, s)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 3, replays)
	}
}
