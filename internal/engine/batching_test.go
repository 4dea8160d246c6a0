package engine_test

// The tests of this package promise, for each way to decide:
//
//   - a decision takes up to the limit, in one round trip, for all keys or none (decide_test.go)
//   - requests that wait share a round trip, and do not delay or fail each other (batching_test.go,
//     queue_test.go, held_test.go)
//   - only denials come from the cache, for at most its TTL, and with a correct RetryAfter
//     (denials_test.go)
//   - a call ends with its timeout or context (failure_test.go), and at once while the circuit breaker
//     is open (breaker_test.go)
//   - after lost replies nothing is lost, charged beyond the limit or refunded twice, and errors
//     report what is unknown (lost_reply_test.go)
//   - a panic or a runtime.Goexit ends only its call (panic_test.go)
//   - a server that decides differently from Go is found (failure_test.go)

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	inFlight := map[string]int{inTransaction.name: 1, onServer.name: 2} // at most
	forEachWay(t, batchWays, engine.Options{}, func(b *fixture) {
		b.hold()
		calls := b.startEach("a", "b", "c", "d", "c", "e")
		require.Len(b, b.store.trips, inFlight[b.name])
		b.releaseOne()
		require.Len(b, b.store.trips, inFlight[b.name]+1)
		b.finish(calls...)
		require.Len(b, b.store.trips, inFlight[b.name]+1)
		require.Equal(b, "xx", b.store.state("c"))
	})
}

func TestRequestsAreDecidedInTheOrderOfArrival(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1, DenialCacheTTL: -1}, func(b *fixture) {
		var calls []*call
		for range 8 {
			calls = append(calls, newCall(counter(5), "k"))
		}
		both, own, late := newCall(counter(5), "k", "own"), newCall(counter(1), "own"), newCall(counter(1), "own")
		b.inOneBatch(append(calls, both, own, late)...)
		for i, c := range calls {
			require.NoError(b, c.err)
			require.Equal(b, i < 5, c.allowed, "caller %d", i)
		}
		b.denied(both)
		b.allowed(own)
		b.denied(late)
		require.Len(b, b.store.trips, 2)
	})
}

func TestRequestSeesADeletionInItsBatch(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		b.store.put("k", "x")
		next := newCall(counter(1), "k")
		b.inOneBatch(newCallOf(driver.Refund, counter(1), "k"), next)
		b.allowed(next)
	})
}

func TestEqualRequestsAreSentAsACount(t *testing.T) {
	var times []int
	counted := lying(func(b *driver.Batch) {
		times = nil
		for _, r := range b.Requests {
			times = append(times, r.Times)
		}
	})
	forEachWay(t, []way{counted}, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		var calls []*call
		for range 8 {
			calls = append(calls, newCall(counter(9), "k"))
		}
		calls[5].Uses[0].Cost = 2
		calls[7].Times = 3 // it takes as many as fit
		shadow := newCall(counter(9), "shadow")
		shadow.Uses[0].Shadow = true
		calls = append(calls, shadow, newCall(counter(9), "shadow"), newCall(counter(8), "shadow"))
		for range 2 {
			calls = append(calls, newCallOf(driver.Refund, counter(9), "k"))
		}
		b.inOneBatch(calls...)
		require.Equal(b, []int{5, 1, 1, 3, 1, 1, 1, 1, 1}, times)
		require.Len(b, b.store.state("k"), 7)
	})
}

func TestBatchHasALimitedNumberOfKeys(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		var calls []*call
		for i := range 200 {
			calls = append(calls, newCall(counter(9), fmt.Sprint(i), fmt.Sprint(i, "-b")))
		}
		b.inOneBatch(calls...)
		b.finish(calls...)
		for _, trip := range b.store.trips {
			require.LessOrEqual(b, len(strings.Fields(trip))-1, 64)
		}
		require.Len(b, b.store.trips, 1+(200*2+63)/64)
	})
}

func TestRequestsOfOneKeyBySwapsWaitForEachOther(t *testing.T) {
	forEachWay(t, []way{bySwaps, onlySwaps}, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		b.hold()
		var calls []*call
		for _, keys := range [][]string{{"a"}, {"b"}, {"a", "b"}, {"b", "a"}, {"c"}} {
			calls = append(calls, b.start(newCall(counter(9), keys...)))
		}
		require.Equal(b, []string{"load a", "load b", "load c"}, b.store.trips)
		b.finish(calls...)
		for _, c := range calls {
			require.Equal(b, 1, c.attempts)
		}
		require.Equal(b, "xxx", b.store.state("a"))
		require.Equal(b, "xxx", b.store.state("b"))
	})
}

// It lasts until the latest deadline of its requests.
func TestRequestWithLittleTimeDoesNotEndItsBatch(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		b.hold()
		b.start(newCall(counter(9), "first"))
		ctx, cancel := context.WithTimeout(background, time.Millisecond)
		defer cancel()
		long, short := b.start(newCall(counter(9), "k")), b.startFor(ctx, newCall(counter(9), "k"))
		b.releaseOne()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		require.ErrorIs(b, short.err, context.DeadlineExceeded)
		b.finish(long)
		require.Len(b, b.store.trips, 2)
	})
}

func TestCancelledRequestIsNotAppliedUnlessItWasSent(t *testing.T) {
	for _, sent := range []bool{false, true} {
		forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
			b.hold()
			b.start(newCall(counter(9), "k"))
			ctx, cancel := context.WithCancel(background)
			gone := b.startFor(ctx, newCall(counter(9), "k"))
			stays := b.start(newCall(counter(9), "k"))
			if sent {
				b.releaseOne()
			}
			cancel()
			synctest.Wait()
			b.failed(gone, context.Canceled, map[bool]error{false: storage.ErrNotApplied, true: storage.ErrOutcomeUnknown}[sent])
			b.finish(stays)
			require.Equal(b, map[bool]string{false: "xx", true: "xxx"}[sent], b.store.state("k"))
		})
	}
}

func TestErrorAffectsOnlyItsRequest(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		b.store.put("bad", "damaged")
		before, after := newCall(counter(9), "k"), newCall(counter(9), "k")
		bad, panics := newCall(counter(9), "k", "bad"), newCall(counter(9), "panics")
		panics.before = func() error { panic("a bug") }
		b.inOneBatch(before, bad, panics, after)
		require.Equal(b, errState, bad.err)
		require.Equal(b, "a bug", panics.panicked)
		b.allowed(before)
		b.allowed(after)
		require.Equal(b, "xx", b.store.state("k"))
	})
}

// The circuit breaker of the other server stays closed.
func TestHangingServerDelaysOnlyItsOwnRequests(t *testing.T) {
	forEachWay(t, []way{onShards}, engine.Options{MaxRoundTrips: 1, Timeout: time.Second}, func(b *fixture) {
		b.hold()
		b.store.ignoresContext = true
		silent := []*call{b.start(newCall(counter(9), "a1")), b.start(newCall(counter(9), "a2")), b.start(newCall(counter(9), "a1"))}
		release := b.letOthersPass()
		require.Zero(b, b.allowed(b.decide(newCall(counter(9), "b1"))).took)
		require.ErrorIs(b, b.decide(newCall(counter(9), "a1", "b1")).err, errTwoServers)
		b.group.Wait()
		for _, c := range silent {
			require.Error(b, c.err)
			require.InDelta(b, time.Second, c.took, float64(expiryGrace))
		}
		require.ErrorContains(b, b.decide(newCall(counter(9), "a1")).err, "the circuit breaker is open")
		b.allowed(b.decide(newCall(counter(9), "b1")))
		release()
	})
}

func TestSlotsShareARoundTripAndFailSeparately(t *testing.T) {
	for _, err := range []error{notSent, errLost} {
		forEachWay(t, []way{onShards}, engine.Options{MaxRoundTrips: 1, Timeout: time.Second}, func(b *fixture) {
			fails := onTrip(1, err)
			b.store.before = func(keys []string) error {
				if keys[0] == "a2" {
					return fails(keys)
				}
				return nil
			}
			calls := []*call{newCall(counter(9), "a1"), newCall(counter(9), "a2"), newCall(counter(9), "a1"), newCall(counter(9), "a3")}
			b.inOneBatch(calls...)
			b.finish(calls...)
			require.Equal(b, []string{"run a0", "run a1|a2|a3", "run a2"}, b.store.trips)
			require.Zero(b, calls[0].took)
		})
	}
}

// The outcome of one key is unknown, or the server could not read it. Other requests are decided.
func TestErrorOfAKeyAffectsOnlyItsRequests(t *testing.T) {
	lost, unreadable := fmt.Errorf("%w: unexpected EOF", storage.ErrUnavailable), storage.NotApplied(errors.New("WRONGTYPE"))
	for keyErr, want := range map[error]error{lost: storage.ErrOutcomeUnknown, unreadable: unreadable} {
		failing := lying(func(b *driver.Batch) {
			if i := slices.Index(b.Keys, "bad"); i >= 0 {
				b.KeyErr = make([]error, len(b.Keys))
				b.KeyErr[i], b.Found[i] = keyErr, storage.Record{}
				b.Requests[i].Applied = 0
			}
		})
		forEachWay(t, []way{failing}, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
			before, bad, after := newCall(counter(9), "k"), newCall(counter(9), "bad"), newCall(counter(9), "k2")
			b.inOneBatch(before, bad, after)
			b.allowed(before)
			require.ErrorIs(b, bad.err, want)
			require.False(b, bad.allowed)
			b.allowed(after)
		})
	}
}

// Nobody knows the states after the first request, so the second one is decided in a batch of its own.
func TestRequestIsDecidedAgainAfterAnEarlierOneOfItsKeyFailed(t *testing.T) {
	for want, lie := range map[error]func(*driver.Batch){
		storage.ErrProgram: func(b *driver.Batch) { b.Requests[0].Applied = 1 },
		storage.ErrPartialWrite: func(b *driver.Batch) {
			b.KeyErr = []error{nil, storage.ErrPartialWrite}
		},
	} {
		failing := lying(func(b *driver.Batch) {
			if len(b.Requests) == 2 {
				lie(b)
			}
		})
		forEachWay(t, []way{failing}, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
			first, next := newCall(counter(1), "a", "b"), newCall(counter(1), "a")
			b.inOneBatch(first, next)
			require.ErrorIs(b, first.err, want)
			b.denied(next)
			require.Equal(b, []string{"run a0", "run a b", "run a"}, b.store.trips)
		})
	}
}
