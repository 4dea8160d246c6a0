package engine_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

func TestPanicOfTheEvaluatorIsRaisedInDecide(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{}, func(b *fixture) {
		for range 3 {
			c := newCall(counter(9), "k")
			c.before = func() error { panic("a bug") }
			require.Equal(b, "a bug", b.decide(c).panicked)
		}
		if b.name != onServer.name { // the server has stored the request already
			b.allowed(b.decide(newCall(counter(1), "k")))
		}
		b.allowed(b.decide(newCall(counter(9), "k")))
	})
}

// A panic of a database driver is raised in the callers of the round trip. Later requests work.
func TestPanicOfTheStoreIsRaisedInItsCallers(t *testing.T) {
	coldAndWarm(t, remoteWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		for range 3 {
			b.store.before = func([]string) error { panic("driver") }
			require.Equal(b, "driver", b.decide(newCall(counter(9), "k")).panicked)
			b.store.before = nil
			b.allowed(b.decide(newCall(counter(9), "k")))
		}
	})
}

// The engine cannot compute the states after a request whose evaluator panics. The outcomes of other requests with the same keys
// are then unknown, but the server is not blamed.
func TestPanicOfAnEvaluatorIsNotReportedAsErrProgram(t *testing.T) {
	for _, cost := range []int64{1, 2} {
		forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
			bad, next, other := newCall(counter(2), "k"), newCall(counter(2), "k"), newCall(counter(9), "other")
			bad.before = func() error { panic("a bug") }
			calls := []*call{bad, next, other}
			if next.Uses[0].Cost = cost; cost == 1 {
				calls = slices.Insert(calls, 0, newCall(counter(2), "k")) // equal, before the bad one
			}
			b.inOneBatch(calls...)
			require.Equal(b, "a bug", bad.panicked)
			if next.err != nil {
				b.failed(next, storage.ErrOutcomeUnknown)
			}
			require.NoError(b, other.err, "other key")
		})
	}
}

func TestPanicOfAnEarlierAttemptIsNotRaised(t *testing.T) {
	forEachWay(t, []way{inTransaction}, engine.Options{}, func(b *fixture) {
		b.store.after = onTrip(1, storage.ErrContended)
		c := newCall(counter(9), "k")
		c.before = func() error {
			if len(c.times) == 1 {
				panic("once")
			}
			return nil
		}
		b.allowed(b.decide(c))
		require.Nil(b, c.panicked)
		require.Equal(b, "x", b.store.state("k"))
	})
}

func TestPanicAfterALostReplyIsRaised(t *testing.T) {
	forEachWay(t, lossyWays, engine.Options{}, func(b *fixture) {
		lose, lost := onTrip(b.write(), errLost), false
		b.store.after = func(keys []string) error {
			err := lose(keys)
			lost = lost || err != nil
			return err
		}
		c := newCall(counter(9), "k")
		c.before = func() error {
			if lost {
				panic("a bug")
			}
			return nil
		}
		require.Equal(b, "a bug", b.decide(c).panicked)
	})
}

// A test that fails in a policy calls runtime.Goexit. If that ends a sender, the call returns an error.
func TestGoexitOfAnEvaluatorEndsOnlyItsCall(t *testing.T) {
	coldAndWarm(t, remoteWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		b.hold()
		first, early := b.start(newCall(counter(9), "first")), b.start(newCall(counter(9), "i"))
		exits := newCall(counter(9), "k")
		exits.before = func() error { runtime.Goexit(); return nil }
		b.start(exits)
		b.finish(first, early, b.start(newCall(counter(9), "j")))
		require.NotEmpty(b, b.store.state("i"))
		require.True(b, exits.returned)
		require.Len(b, exits.times, 1, "it is not decided again")
		require.Nil(b, exits.panicked)
		b.store.remove("k") // the server has stored it
		b.allowed(b.decide(newCall(counter(1), "k")))
	})
}

// Without a commit nothing is stored. So the requests before and after the one that exits can be repeated.
func TestGoexitInATransactionLosesNoReply(t *testing.T) {
	coldAndWarm(t, []way{inTransaction}, engine.Options{}, func(b *fixture) {
		b.store.put("i", "xx")
		b.store.put("j", "xx")
		exits := newCall(counter(9), "k")
		exits.before = func() error { runtime.Goexit(); return nil }
		before, after := newCallOf(driver.Refund, counter(9), "i"), newCallOf(driver.Reset, nil, "j")
		b.inOneBatch(before, exits, after)
		require.True(b, exits.returned)
		b.allowed(before)
		b.allowed(after)
		require.Equal(b, "x", b.store.state("i"))
		require.Empty(b, b.store.state("j"))
	})
}
