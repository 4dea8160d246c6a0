package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// A server that decides otherwise than Go is found out, and nobody is answered by either.
func TestAServerThatDecidesOtherwiseIsAnError(t *testing.T) {
	lies := map[string]func(*driver.Batch){
		"allows what is denied":    func(b *driver.Batch) { b.Requests[1].Applied = 1 },
		"denies what is allowed":   func(b *driver.Batch) { b.Requests[0].Applied = 0 },
		"damage that is none":      func(b *driver.Batch) { b.Requests[0].Applied = driver.Damaged },
		"another state":            func(b *driver.Batch) { b.Found[0].State = []byte("xxx") },
		"no state":                 func(b *driver.Batch) { b.Found[1] = storage.Record{} },
		"an outcome that is none":  func(b *driver.Batch) { b.Requests[0].Applied = -9 },
		"more steps than requests": func(b *driver.Batch) { b.Requests[0].Applied = 7 },
	}
	for name, lie := range lies {
		lying := way{name: name, open: func(f *fake) storage.Store {
			return server{fake: f, lie: func(b *driver.Batch) {
				if len(b.Requests) > 1 {
					lie(b)
				}
			}}
		}}
		each(t, []way{lying}, engine.Options{MaxRoundTrips: 1}, func(b *bench) {
			b.store.put("full", "xx")
			b.close()
			b.start(newCall(counter(9), "first"))
			calls := []*call{b.start(newCall(counter(2), "k")), b.start(newCall(counter(2), "full"))}
			b.open()
			b.group.Wait()
			found := false
			for _, c := range calls {
				if c.err != nil {
					require.ErrorIs(b, c.err, storage.ErrProgram)
					require.NotErrorIs(b, c.err, storage.ErrNotApplied)
					require.NotErrorIs(b, c.err, storage.ErrUnavailable)
					found = true
				}
			}
			require.True(b, found)
		})
	}
}

// A server that is early or late with its time is found out too.
func TestAServerThatDecidesAtAnotherTimeIsAnError(t *testing.T) {
	lying := way{name: "server", open: func(f *fake) storage.Store {
		return server{fake: f, lie: func(b *driver.Batch) { b.At = b.At.Add(1e9) }}
	}}
	each(t, []way{lying}, engine.Options{}, func(b *bench) {
		b.allowed(b.decide(newCall(spacing(1e9), "k")))
		require.ErrorIs(b, b.decide(newCall(spacing(1e9), "k")).err, storage.ErrProgram)
	})
}

// What is decided wrongly is not cached.
func TestADecisionOfAWrongProgramIsNotCached(t *testing.T) {
	lying := way{name: "server", open: func(f *fake) storage.Store {
		return server{fake: f, lie: func(b *driver.Batch) { b.Requests[0].Applied = 1 }}
	}}
	each(t, []way{lying}, engine.Options{}, func(b *bench) {
		b.store.put("k", "x")
		for range 3 {
			c := b.decide(newCall(counter(1), "k"))
			require.ErrorIs(b, c.err, storage.ErrProgram)
			require.False(b, c.how.Cached)
		}
	})
}

// A program may decline one request of a batch. It is decided by swaps, the others are not.
func TestADeclinedRequestGoesBySwapsAlone(t *testing.T) {
	declining := way{name: "server", open: func(f *fake) storage.Store {
		return server{fake: f, declines: 50}
	}}
	each(t, []way{declining}, engine.Options{MaxRoundTrips: 1}, func(b *bench) {
		b.close()
		b.start(newCall(counter(9), "first"))
		huge := newCall(counter(100), "huge")
		huge.Uses[0].Cost = 50
		b.start(huge)
		other := b.start(newCall(counter(9), "k"))
		b.open()
		b.group.Wait()
		b.allowed(huge)
		b.allowed(other)
		require.Len(b, b.store.state("huge"), 50)
		require.Equal(b, []string{"run first", "run huge k", "load huge", "swap huge"}, b.store.trips)
	})
}
