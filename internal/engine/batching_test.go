package engine_test

// The tests of this package promise, for each way to decide:
//
//   - a decision takes up to the limit, in one round trip, for all keys or none (decide_test.go)
//   - requests that wait share a round trip, and do not delay or fail each other (batching_test.go,
//     key_error_test.go)
//   - only denials come from the cache, for at most its TTL, and with a correct RetryAfter
//     (denials_test.go)
//   - a call ends with its timeout or context (deadline_test.go, failure_test.go), and at once while
//     the circuit breaker is open (breaker_test.go)
//   - after lost replies nothing is lost, charged beyond the limit or refunded twice, and errors
//     report what is unknown (lost_reply_test.go, random_faults_test.go, edge_cases_test.go)
//   - a server that decides differently from Go is found (wrong_server_test.go)
//   - the clocks of the processes change nothing (clock_skew_test.go)

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

func TestWaitingRequestsShareARoundTrip(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 2}, func(b *fixture) {
		b.hold()
		var calls []*call
		for _, key := range []string{"a", "b", "c", "d", "c", "e"} {
			calls = append(calls, b.start(newCall(counter(9), key)))
		}
		require.Len(b, b.store.trips, 2, "two round trips may be in flight")
		b.releaseOne()
		require.Len(b, b.store.trips, 3)
		b.releaseAll()
		b.group.Wait()
		require.Len(b, b.store.trips, 3)
		for _, c := range calls {
			b.allowed(c)
		}
		require.Equal(b, "xx", b.store.state("c"))
	})
}

// On a server, the first caller sends its own request. A sender sends the second one.
func TestRequestsThatWaitForACallersOwnRequestAreSent(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		b.warm()
		b.hold()
		own, waits := b.start(newCall(counter(9), "k")), b.start(newCall(counter(9), "k"))
		require.Len(b, b.store.tripsSoFar(), 1)
		b.releaseAll()
		b.group.Wait()
		b.allowed(own)
		require.Zero(b, b.allowed(waits).took)
	})
}

func TestRequestsAreDecidedInTheOrderOfArrival(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1, DenialCacheTTL: -1}, func(b *fixture) {
		b.hold()
		b.start(newCall(counter(9), "first"))
		var calls []*call
		for range 8 {
			calls = append(calls, b.start(newCall(counter(5), "k")))
		}
		both := b.start(newCall(counter(5), "k", "own"))
		own := b.start(newCall(counter(1), "own"))
		b.releaseAll()
		b.group.Wait()
		for i, c := range calls {
			require.NoError(b, c.err)
			require.Equal(b, i < 5, c.allowed, "caller %d", i)
		}
		b.denied(both)
		b.allowed(own)
		require.Len(b, b.store.trips, 2)
	})
}

func TestEqualRequestsAreSentAsACount(t *testing.T) {
	var sent []driver.Request
	counted := way{name: "server", open: func(f *fakeStore) storage.Store {
		return server{fakeStore: f, lie: func(b *driver.Batch) { sent = append([]driver.Request{}, b.Requests...) }}
	}}
	forEachWay(t, []way{counted}, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		b.hold()
		b.start(newCall(counter(9), "first"))
		for range 5 {
			b.start(newCall(counter(9), "k"))
		}
		other := newCall(counter(9), "k")
		other.Uses[0].Cost = 2
		b.start(other)
		b.start(newCall(counter(9), "k"))
		several := newCall(counter(9), "k") // it takes as many as fit
		several.Times = 3
		b.start(several)
		b.releaseAll()
		b.group.Wait()
		var times []int
		for _, r := range sent {
			times = append(times, r.Times)
		}
		require.Equal(b, []int{5, 1, 1, 3}, times)
		require.Len(b, b.store.state("k"), 9)
	})
}

func TestBatchHasALimitedNumberOfKeys(t *testing.T) {
	for _, keys := range []int{1, 2, 4} {
		forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
			b.hold()
			var calls []*call
			for i := range 200 {
				var names []string
				for j := range keys {
					names = append(names, fmt.Sprint(i, "-", j))
				}
				calls = append(calls, b.start(newCall(counter(9), names...)))
			}
			b.releaseAll()
			b.group.Wait()
			for _, trip := range b.store.trips {
				require.LessOrEqual(b, len(strings.Fields(trip))-1, 64)
			}
			require.Equal(b, 1+(199*keys+63)/64, len(b.store.trips))
			for _, c := range calls {
				b.allowed(c)
			}
		})
	}
}

func TestRequestsBySwapsDoNotWaitForEachOther(t *testing.T) {
	forEachWay(t, []way{bySwaps, onlySwaps}, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		b.hold()
		for _, key := range []string{"a", "b", "c"} {
			b.start(newCall(counter(9), key))
		}
		require.Equal(b, []string{"load a", "load b", "load c"}, b.store.trips)
		b.releaseAll()
	})
}

func TestRequestsOfOneKeyBySwapsWaitForEachOther(t *testing.T) {
	forEachWay(t, []way{bySwaps, onlySwaps}, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		b.hold()
		var calls []*call
		for _, keys := range [][]string{{"a", "b"}, {"b", "a"}, {"b"}, {"c"}} {
			calls = append(calls, b.start(newCall(counter(9), keys...)))
		}
		require.Equal(b, []string{"load a b", "load c"}, b.store.trips)
		b.releaseAll()
		b.group.Wait()
		for _, c := range calls {
			require.Equal(b, 1, b.allowed(c).stats.Attempts)
		}
		require.Equal(b, "xx", b.store.state("a"))
		require.Equal(b, "xxx", b.store.state("b"))
	})
}

func TestNumberOfBatchesInFlightDependsOnTheStore(t *testing.T) {
	for w, want := range map[*way]int{&inTransaction: 1, &onServer: 2} {
		forEachWay(t, []way{*w}, engine.Options{}, func(b *fixture) {
			b.hold()
			for _, key := range []string{"a", "b", "c"} {
				b.start(newCall(counter(9), key))
			}
			require.Len(b, b.store.trips, want)
			b.releaseAll()
		})
	}
}

func TestRequestCancelledBeforeItIsSentIsNotApplied(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		b.hold()
		b.start(newCall(counter(9), "k"))
		ctx, cancel := context.WithCancel(background)
		gone := b.startFor(ctx, newCall(counter(9), "k"))
		stays := b.start(newCall(counter(9), "k"))
		cancel()
		synctest.Wait()
		require.True(b, gone.returned)
		require.ErrorIs(b, gone.err, context.Canceled)
		require.ErrorIs(b, gone.err, storage.ErrNotApplied)
		require.NotErrorIs(b, gone.err, storage.ErrUnavailable)
		require.NotErrorIs(b, gone.err, storage.ErrContended)
		b.releaseAll()
		b.group.Wait()
		b.allowed(stays)
		require.Equal(b, "xx", b.store.state("k"))
	})
}

func TestRequestCancelledAfterItIsSentIsErrOutcomeUnknown(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		b.hold()
		b.start(newCall(counter(9), "k"))
		ctx, cancel := context.WithCancel(background)
		gone := b.startFor(ctx, newCall(counter(9), "k"))
		stays := b.start(newCall(counter(9), "k"))
		b.releaseOne()
		cancel()
		synctest.Wait()
		require.True(b, gone.returned)
		require.ErrorIs(b, gone.err, storage.ErrOutcomeUnknown)
		require.ErrorIs(b, gone.err, context.Canceled)
		require.NotErrorIs(b, gone.err, storage.ErrNotApplied)
		b.releaseAll()
		b.group.Wait()
		b.allowed(stays)
		require.Equal(b, "xxx", b.store.state("k"))
	})
}

func TestCancelledRequestsLeaveTheQueue(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1, MaxQueue: 2}, func(b *fixture) {
		b.hold()
		b.start(newCall(counter(9), "k"))
		for range 1000 {
			ctx, cancel := context.WithCancel(background)
			require.False(b, b.startFor(ctx, newCall(counter(9), "k")).returned)
			cancel()
			synctest.Wait()
		}
		stays := b.start(newCall(counter(9), "k"))
		b.releaseAll()
		b.group.Wait()
		b.allowed(stays)
		require.Equal(b, "xx", b.store.state("k"))
	})
}

func TestFullQueueIsErrOverloaded(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{MaxRoundTrips: 1, MaxQueue: 2}, func(b *fixture) {
		b.hold()
		waiting := 2
		if !b.swaps || b.batches { // one more is in flight
			waiting++
		}
		for range waiting {
			require.False(b, b.start(newCall(counter(9), "k")).returned)
		}
		surplus := b.start(newCall(counter(9), "k"))
		require.ErrorIs(b, surplus.err, storage.ErrOverloaded)
		require.ErrorIs(b, surplus.err, storage.ErrUnavailable)
		require.ErrorIs(b, surplus.err, storage.ErrNotApplied)
		require.Zero(b, surplus.took)
		b.releaseAll()
		b.group.Wait()
		b.allowed(b.decide(newCall(counter(9), "k")))
	})
}

func TestErrorAffectsOnlyItsRequest(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		b.store.put("bad", "damaged")
		b.hold()
		b.start(newCall(counter(9), "first"))
		before := b.start(newCall(counter(9), "k"))
		bad := b.start(newCall(counter(9), "k", "bad"))
		after := b.start(newCall(counter(9), "k"))
		b.releaseAll()
		b.group.Wait()
		require.Equal(b, errState, bad.err)
		b.allowed(before)
		b.allowed(after)
		require.Equal(b, "xx", b.store.state("k"))
	})
}

func TestPanicAffectsOnlyItsRequest(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		b.hold()
		b.start(newCall(counter(9), "first"))
		before := b.start(newCall(counter(9), "k"))
		bad := newCall(counter(9), "bad")
		bad.before = func() error { panic("a bug") }
		b.start(bad)
		after := b.start(newCall(counter(9), "k"))
		b.releaseAll()
		b.group.Wait()
		require.Equal(b, "a bug", bad.panicked)
		b.allowed(before)
		b.allowed(after)
		require.Equal(b, "xx", b.store.state("k"))
	})
}

func TestHangingServerDelaysOnlyItsOwnRequests(t *testing.T) {
	w := way{name: "sharded", open: func(f *fakeStore) storage.Store { return sharded{server{fakeStore: f}} }}
	forEachWay(t, []way{w}, engine.Options{MaxRoundTrips: 1, Timeout: time.Second}, func(b *fixture) {
		b.hold()
		b.store.ignoresContext = true
		silent := []*call{b.start(newCall(counter(9), "a1")), b.start(newCall(counter(9), "a2")), b.start(newCall(counter(9), "a1"))}
		b.store.mu.Lock()
		closed := b.store.gate
		b.store.gate = nil
		b.store.mu.Unlock()
		for range 3 {
			require.Zero(b, b.allowed(b.decide(newCall(counter(9), "b1"))).took)
		}
		require.ErrorIs(b, b.decide(newCall(counter(9), "a1", "b1")).err, errTwoServers)
		b.group.Wait()
		for _, c := range silent {
			require.Error(b, c.err)
			require.InDelta(b, time.Second, c.took, float64(20*time.Millisecond))
		}
		b.allowed(b.decide(newCall(counter(9), "b1")))
		close(closed)
	})
}

func TestEachServerHasItsOwnCircuitBreaker(t *testing.T) {
	w := way{name: "sharded", open: func(f *fakeStore) storage.Store { return sharded{server{fakeStore: f}} }}
	forEachWay(t, []way{w}, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.before = func(keys []string) error {
			if keys[0][0] == 'a' {
				return storage.NotApplied(errRefused)
			}
			return nil
		}
		require.ErrorIs(b, b.decide(newCall(counter(9), "a1")).err, storage.ErrUnavailable)
		require.Zero(b, b.decide(newCall(counter(9), "a1")).took, "the breaker is open")
		b.allowed(b.decide(newCall(counter(9), "b1")))
	})
}

func TestSlotsShareARoundTripAndFailSeparately(t *testing.T) {
	w := way{name: "sharded", open: func(f *fakeStore) storage.Store { return sharded{server{fakeStore: f}} }}
	forEachWay(t, []way{w}, engine.Options{MaxRoundTrips: 1, Timeout: time.Second}, func(b *fixture) {
		b.hold()
		b.start(newCall(counter(9), "a0"))
		var calls []*call
		for _, key := range []string{"a1", "a2", "a1", "a3"} {
			calls = append(calls, b.start(newCall(counter(9), key)))
		}
		failed := false
		b.store.before = func(keys []string) error {
			if keys[0] == "a2" && !failed {
				failed = true
				return storage.NotApplied(errRefused)
			}
			return nil
		}
		b.releaseAll()
		b.group.Wait()
		require.Equal(b, []string{"run a0", "run a1|a2|a3", "run a2"}, b.store.trips)
		for _, c := range calls {
			b.allowed(c)
		}
		require.Zero(b, calls[0].took)
	})
}

func TestLostReplyDoesNotDelayOthers(t *testing.T) {
	forEachWay(t, []way{onServer}, engine.Options{MaxRoundTrips: 2}, func(b *fixture) {
		began := time.Now()
		b.store.after = func(keys []string) error {
			if keys[0] == "lossy" && time.Since(began) == 0 {
				return errLost
			}
			return nil
		}
		lossy := b.start(newCall(counter(9), "lossy"))
		other := b.decide(newCall(counter(9), "other"))
		require.Zero(b, b.allowed(other).took)
		b.group.Wait()
		b.allowed(lossy)
	})
}

// A failed batch gives its place in flight to the waiting requests.
func TestRequestsThatAreSentAgainCountAsWaiting(t *testing.T) {
	w := way{name: "sharded", open: func(f *fakeStore) storage.Store { return sharded{server{fakeStore: f}} }}
	forEachWay(t, []way{w}, engine.Options{MaxRoundTrips: 1, MaxQueue: 10, OpenAfter: -1, Timeout: time.Second}, func(b *fixture) {
		b.store.before = func([]string) error { return storage.NotApplied(errRefused) }
		b.hold()
		for i := range 11 {
			b.start(newCall(counter(9), fmt.Sprint("a", i)))
		}
		b.releaseAll()
		require.ErrorIs(b, b.decide(newCall(counter(9), "a0")).err, storage.ErrOverloaded)
		b.group.Wait()
		synctest.Wait() // until their goroutines have ended
		b.store.before = nil
		b.allowed(b.decide(newCall(counter(9), "a0")))
	})
}
