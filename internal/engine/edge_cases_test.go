package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// If an evaluator panics, the engine cannot compute the states after its request. The outcomes of
// other requests with the same keys are then unknown, but the server is not blamed.
func TestPanicOfAnEvaluatorIsNotReportedAsErrProgram(t *testing.T) {
	for _, cost := range []int64{1, 2} {
		t.Run(fmt.Sprint("cost ", cost), func(t *testing.T) {
			forEachWay(t, batchWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
				b.hold()
				b.start(newCall(counter(9), "first"))
				bad := newCall(counter(2), "k")
				bad.before = func() error { panic("a bug") }
				if cost == 1 {
					b.start(newCall(counter(2), "k")) // equal, before the bad one
				}
				b.start(bad)
				next := newCall(counter(2), "k")
				next.Uses[0].Cost = cost
				b.start(next)
				other := b.start(newCall(counter(9), "other"))
				b.releaseAll()
				b.group.Wait()
				require.Equal(b, "a bug", bad.panicked)
				if next.err != nil {
					require.ErrorIs(b, next.err, storage.ErrOutcomeUnknown)
					require.NotErrorIs(b, next.err, storage.ErrProgram)
				}
				require.NoError(b, other.err, "other key")
			})
		})
	}
}

func TestEarlierTimeoutOfACallerDoesNotOpenTheBreaker(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: time.Second}, func(b *fixture) {
		b.store.takes = 50 * time.Millisecond
		ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
		defer cancel()
		require.Error(b, b.decideFor(ctx, newCall(counter(9), "k")).err)
		time.Sleep(time.Hour)
		synctest.Wait()
		b.store.takes = 0
		began := time.Now()
		b.store.before = func([]string) error {
			if time.Since(began) < 200*time.Millisecond {
				return storage.NotApplied(errRefused)
			}
			return nil
		}
		one := b.start(newCall(counter(9), "k"))
		time.Sleep(10 * time.Millisecond)
		two := b.decide(newCall(counter(9), "k"))
		b.group.Wait()
		require.NoError(b, one.err)
		require.NoError(b, two.err)
	})
}

func TestCancelledRequestsToAHangingStoreLeaveTheQueue(t *testing.T) {
	for _, neverOpens := range []bool{false, true} {
		o := engine.Options{MaxRoundTrips: 1, MaxQueue: 10, Timeout: time.Second}
		wait := 300 * time.Millisecond
		if neverOpens {
			o.OpenAfter = -1
		}
		forEachWay(t, batchWays, o, func(b *fixture) {
			b.hold()
			b.store.ignoresContext = true
			for range 2000 {
				ctx, cancel := context.WithTimeout(background, wait)
				b.group.Go(func() { b.decideFor(ctx, newCall(counter(9), "k")); cancel() })
				time.Sleep(50 * time.Millisecond)
			}
			b.group.Wait()
			n := b.engine.Waiting()
			c := newCall(counter(9), "k")
			ctx, cancel := context.WithTimeout(background, wait)
			defer cancel()
			b.decideFor(ctx, c)
			b.releaseAll()
			require.LessOrEqual(b, n, 20)
		})
	}
}

// A reply is lost, the server declines the second attempt, and the queue is full.
func TestOverloadAfterALostReplyIsNotErrNotApplied(t *testing.T) {
	var declines atomic.Bool
	w := way{name: "server", open: func(f *fakeStore) storage.Store { return &declining{server{fakeStore: f}, &declines} }}
	forEachWay(t, []way{w}, engine.Options{MaxRoundTrips: 2, MaxQueue: 1, Timeout: time.Second}, func(b *fixture) {
		declines.Store(false)
		n := 0
		b.store.after = func(keys []string) error {
			if keys[0] != "k" {
				return nil
			}
			if n++; n == 1 { // the request is stored and the reply is lost; another process changes the key
				b.store.put("k", "xx")
				declines.Store(true)
				return errLost
			}
			// a request that needs swaps fills the queue
			b.hold()
			other := newCall(counter(9), "swapped")
			other.Uses[0].Op = driver.Refund
			other.Uses[0].Program = &algo.Program{Args: []int64{9}}
			b.group.Go(func() { b.decide(other) })
			time.Sleep(time.Millisecond)
			return nil
		}
		c := b.start(newCall(counter(9), "k"))
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		b.releaseAll()
		b.group.Wait()
		if c.err != nil {
			require.NotErrorIs(b, c.err, storage.ErrNotApplied)
		}
	})
}

// declining is a server that declines all requests while declines is true.
type declining struct {
	server
	declines *atomic.Bool
}

func (d *declining) Run(ctx context.Context, batches ...*driver.Batch) {
	s := d.server
	if d.declines.Load() {
		s.declines = 1
	}
	s.Run(ctx, batches...)
}

// After the lost reply, another process writes a state that cannot be read.
func TestErrorAfterALostReplyIsErrOutcomeUnknown(t *testing.T) {
	forEachWay(t, lossyWays, engine.Options{}, func(b *fixture) {
		b.loseReplies(b.write())
		n := 0
		b.store.before = func([]string) error {
			if n++; n == b.write()+1 {
				b.store.put("k", "damaged")
			}
			return nil
		}
		c := b.decide(newCall(counter(3), "k"))
		require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
	})
}

func TestFailingSlotDoesNotDelayOthers(t *testing.T) {
	w := way{name: "sharded", open: func(f *fakeStore) storage.Store { return sharded{server{fakeStore: f}} }}
	forEachWay(t, []way{w}, engine.Options{MaxRoundTrips: 2, Timeout: time.Second, OpenAfter: -1}, func(b *fixture) {
		b.store.before = func(keys []string) error {
			if keys[0] == "a2" {
				return storage.NotApplied(errRefused)
			}
			return nil
		}
		b.start(newCall(counter(9), "a2"))
		b.start(newCall(counter(9), "a2"))
		c := b.decide(newCall(counter(9), "a1"))
		require.NoError(b, c.err)
		require.Less(b, c.took, 100*time.Millisecond)
	})
}

func TestPanicOfAnEarlierAttemptIsNotRaised(t *testing.T) {
	forEachWay(t, []way{inTransaction}, engine.Options{}, func(b *fixture) {
		b.loseReplies()
		n := 0
		b.store.after = func([]string) error {
			if n++; n == 1 {
				return storage.ErrContended
			}
			return nil
		}
		c := newCall(counter(9), "k")
		c.before = func() error {
			if len(c.times) == 1 {
				panic("once")
			}
			return nil
		}
		b.decide(c)
		require.Equal(b, c.panicked == nil, b.store.state("k") == "x")
	})
}

func TestOnlyTheSlotWithALostReplyIsSentAgain(t *testing.T) {
	w := way{name: "sharded", open: func(f *fakeStore) storage.Store { return sharded{server{fakeStore: f}} }}
	for lost := range 4 {
		forEachWay(t, []way{w}, engine.Options{MaxRoundTrips: 1, Timeout: time.Second}, func(b *fixture) {
			b.hold()
			b.start(newCall(counter(9), "a0"))
			var calls []*call
			for _, key := range []string{"a1", "a2", "a3", "a1", "a2", "a3"} {
				calls = append(calls, b.start(newCall(counter(9), key)))
			}
			calls = append(calls, b.start(newCall(counter(9), "a1own")), b.start(newCall(counter(9), "a2own")))
			tries, refused := map[string]int{}, false
			b.store.after = func(keys []string) error {
				key := keys[0]
				tries[key]++
				if key == fmt.Sprint("a", lost) && tries[key] < 2 {
					return errLost
				}
				return nil
			}
			b.store.before = func(keys []string) error {
				if keys[0] == "a2" && lost != 2 && !refused {
					refused = true
					return storage.NotApplied(errRefused)
				}
				return nil
			}
			b.releaseAll()
			b.group.Wait()
			for _, c := range calls {
				b.allowed(c)
			}
			for i, key := range []string{"a1own", "a2own"} {
				want := "x"
				if lost == i+1 {
					want = "xx"
				}
				require.Equal(b, want, b.store.state(key))
			}
		})
	}
}

// The callers wait for the request that renews an expired denial.
func TestRequestCancelledDuringARenewalIsNotSent(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.put("k", "x")
		b.denied(b.decide(newCall(counter(1), "k")))
		time.Sleep(2 * time.Second) // the denial has expired
		b.store.remove("k")
		b.hold()
		b.store.mu.Lock()
		b.store.trips = nil
		b.store.mu.Unlock()
		b.start(newCall(counter(1000), "k")) // renews it
		var calls []*call
		ctx, cancel := context.WithCancel(background)
		for range 50 {
			calls = append(calls, b.startFor(ctx, newCall(counter(1000), "k")))
		}
		require.Len(b, b.store.tripsSoFar(), 1)
		cancel()
		synctest.Wait()
		trips := b.store.tripsSoFar()
		unknown := 0
		for _, c := range calls {
			require.True(b, c.returned)
			if errors.Is(c.err, storage.ErrOutcomeUnknown) {
				unknown++
			}
		}
		b.releaseAll()
		b.group.Wait()
		time.Sleep(time.Second)
		require.Zero(b, unknown)
		require.Len(b, trips, 1)
	})
}

// A test that fails in a policy calls runtime.Goexit. It ends the goroutine of the caller, and no other.
func TestGoexitOfAnEvaluatorEndsOnlyItsCaller(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
		for _, warm := range []bool{false, true} {
			if warm {
				b.warm()
			}
			b.hold()
			first := b.start(newCall(counter(9), "first"))
			exits := newCall(counter(9), "k")
			exits.before = func() error { runtime.Goexit(); return nil }
			b.start(exits)
			after := b.start(newCall(counter(9), "j"))
			b.releaseAll()
			b.group.Wait()
			require.True(b, exits.returned, "by a deferred function")
			require.NoError(b, exits.err)
			require.Nil(b, exits.panicked)
			b.allowed(first)
			b.allowed(after)
			b.store.remove("k") // the server has stored it
			b.allowed(b.decide(newCall(counter(1), "k")))
			b.store.remove("k")
		}
	})
}
