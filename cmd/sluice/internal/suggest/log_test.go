package suggest_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/suggest"
)

func TestLogsShareTheirMemory(t *testing.T) {
	const perClient = suggest.RequestBytes + suggest.KeyBytes + 1
	memory := suggest.NewMemory(2*perClient + suggest.RequestBytes)
	a, b := suggest.NewLog(memory), suggest.NewLog(memory)
	for _, c := range []struct {
		log  *suggest.Log
		key  string
		want error
	}{{a, "x", nil}, {b, "x", nil}, {b, "x", nil}, {a, "x", suggest.ErrMemory}} {
		_, err := c.log.Add(start, []byte(c.key))
		require.ErrorIs(t, err, c.want)
	}
}

func TestLogRefusesRequestsOutOfOrder(t *testing.T) {
	log := suggest.NewLog(suggest.NewMemory(1 << 20))
	_, err := log.Add(start, []byte("a"))
	require.NoError(t, err)
	_, err = log.Add(start.Add(-1), []byte("a"))
	require.ErrorContains(t, err, "comes after one at")
}

// TestGroupKeepsTheIndexesOfKeys: the index leads from the number of a key to its name.
func TestGroupKeepsTheIndexesOfKeys(t *testing.T) {
	log := suggest.NewLog(suggest.NewMemory(1 << 30))
	names := make(map[uint32]string)
	for i := range 20_000 { // several chunks
		key := strconv.Itoa(i * i % 3000)
		id, err := log.Add(start.Add(time.Duration(i)), []byte(key))
		require.NoError(t, err)
		names[id] = key
	}
	requests, index := log.Group()
	require.EqualValues(t, 20_000, requests.Len())
	require.EqualValues(t, len(names), requests.Clients())
	for id, name := range names {
		require.Equal(t, name, requests.Name(index[id]))
	}
}

// TestRunEndsWithItsContext: a search of one key and one of many keys both end.
func TestRunEndsWithItsContext(t *testing.T) {
	for _, keys := range []int{1, 10_000} {
		log := suggest.NewLog(suggest.NewMemory(1 << 30))
		for i := range 50_000 {
			_, err := log.Add(start.Add(time.Duration(i)), []byte(strconv.Itoa(i%keys)))
			require.NoError(t, err)
		}
		requests, _ := log.Group()
		template, err := suggest.ParseTemplate("gcra ?/m")
		require.NoError(t, err)
		share, err := suggest.ParseShare("100%")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		replays := 0
		_, err = suggest.Run(ctx, func() {
			if replays++; replays == 3 {
				cancel()
			}
		}, suggest.Search{Requests: requests, Template: template, Goal: suggest.Goal{Share: share}})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 3, replays)
	}
}
