package suggest_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/suggest"
)

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

func TestLogsShareTheirMemory(t *testing.T) {
	const request, key = 20, 150 // bytes of memory
	const perClient = request + key + 1
	memory := suggest.Memory(2*perClient + request)
	a, b := suggest.NewLog(&memory), suggest.NewLog(&memory)
	for _, c := range []struct {
		log  *suggest.Log
		want error
	}{{a, nil}, {b, nil}, {b, nil}, {a, suggest.ErrMemory}} {
		_, err := c.log.Add(start, []byte("x"))
		require.ErrorIs(t, err, c.want)
	}
}
