package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

func TestServerThatDecidesDifferentlyFromGoIsErrProgram(t *testing.T) {
	lies := map[string]func(*driver.Batch){
		"allows what is denied":    func(b *driver.Batch) { b.Requests[1].Applied = 1 },
		"denies what is allowed":   func(b *driver.Batch) { b.Requests[0].Applied = 0 },
		"unfounded damage":         func(b *driver.Batch) { b.Requests[0].Applied = driver.Damaged },
		"another state":            func(b *driver.Batch) { b.Found[0].State = []byte("xxx") },
		"no state":                 func(b *driver.Batch) { b.Found[1] = storage.Record{} },
		"an invalid outcome":       func(b *driver.Batch) { b.Requests[0].Applied = -9 },
		"more steps than requests": func(b *driver.Batch) { b.Requests[0].Applied = 7 },
	}
	for name, lie := range lies {
		w := lying(func(b *driver.Batch) {
			if len(b.Requests) > 1 {
				lie(b)
			}
		})
		forEachWay(t, []way{w}, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
			b.store.put("full", "xx")
			calls := []*call{newCall(counter(2), "k"), newCall(counter(2), "full")}
			b.inOneBatch(calls...)
			found := false
			for _, c := range calls {
				if c.err != nil {
					require.ErrorIs(b, c.err, storage.ErrProgram)
					require.NotErrorIs(b, c.err, storage.ErrNotApplied)
					require.NotErrorIs(b, c.err, storage.ErrUnavailable)
					found = true
				}
			}
			require.True(b, found, name)
		})
	}
}

// The time in the reply is not the time of the decision.
func TestServerThatReportsAWrongTimeIsErrProgram(t *testing.T) {
	forEachWay(t, []way{lying(func(b *driver.Batch) { b.At = b.At.Add(1e9) })}, engine.Options{}, func(b *fixture) {
		b.allowed(b.decide(newCall(spacing(1e9), "k")))
		require.ErrorIs(b, b.decide(newCall(spacing(1e9), "k")).err, storage.ErrProgram)
	})
}

func TestWrongDenialIsNotCached(t *testing.T) {
	forEachWay(t, []way{lying(func(b *driver.Batch) { b.Requests[0].Applied = 1 })}, engine.Options{}, func(b *fixture) {
		b.store.put("k", "x")
		for range 3 {
			c := b.decide(newCall(counter(1), "k"))
			require.ErrorIs(b, c.err, storage.ErrProgram)
			require.False(b, c.stats.Cached)
		}
	})
}

// The other requests of the batch are not decided by swaps.
func TestDeclinedRequestIsDecidedBySwaps(t *testing.T) {
	declining := way{name: "server", open: func(f *fakeStore) storage.Store { return server{fakeStore: f, declines: 50} }}
	forEachWay(t, []way{declining}, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		huge, other := newCall(counter(100), "huge"), newCall(counter(9), "k")
		huge.Uses[0].Cost = 50
		b.inOneBatch(huge, other)
		b.allowed(huge)
		b.allowed(other)
		require.Len(b, b.store.state("huge"), 50)
		require.Equal(b, []string{"run a0", "run huge k", "load huge", "swap huge"}, b.store.trips)
	})
}
