package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// A store reports contention, or another process is always faster.
func TestContentionEndsWithTheTimeout(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: 2 * time.Second}, func(b *fixture) {
		b.store.before = func([]string) error {
			if !b.swaps {
				return storage.ErrContended
			}
			b.store.put("k", "x")
			return nil
		}
		c := b.failed(b.decide(newCall(counter(1000), "k")), storage.ErrContended, storage.ErrNotApplied)
		require.Equal(b, 2*time.Second, c.took)
		trips := len(b.store.tripsSoFar())
		require.Greater(b, trips, 40)
		require.Less(b, trips, 40_000)
		b.store.before = nil
		b.allowed(b.decide(newCall(counter(1000), "k")))
	})
}

func TestCallDuringAnOutageEndsWithTheTimeout(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: -1}, func(b *fixture) {
		for range 2 {
			b.store.before = always(notSent)
			c := b.failed(b.decide(newCall(counter(2), "k")), errRefused, storage.ErrNotApplied)
			require.Equal(b, time.Second, c.took)
			b.store.before = nil
			b.allowed(b.decide(newCall(counter(2), "k")))
		}
	})
}

func TestCallsSurviveAShortOutage(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.put("refund", "xx")
		b.store.before = forTime(900*time.Millisecond, notSent)
		b.finish(b.start(newCall(counter(2), "k")), b.start(newCall(counter(2), "k")), b.start(newCallOf(driver.Refund, counter(2), "refund")))
		require.Equal(b, "x", b.store.state("refund"))
	})
}

// The deadline of the caller's context ends the call, and not the timeout.
func TestEndedContextIsNotErrUnavailable(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.before = always(storage.ErrContended)
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		c := b.failed(b.decideFor(ctx, newCall(counter(1), "k")), context.DeadlineExceeded, storage.ErrContended, storage.ErrNotApplied)
		require.Equal(b, 100*time.Millisecond, c.took)
		ctx, cancel = context.WithCancel(background)
		time.AfterFunc(100*time.Millisecond, cancel)
		b.failed(b.decideFor(ctx, newCall(counter(1), "k")), context.Canceled, storage.ErrContended, storage.ErrNotApplied)
	})
}

// A sent request may have been stored. A waiting request was not sent.
func TestHangingStoreIsErrUnavailable(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{Timeout: time.Second, MaxRoundTrips: 1}, func(b *fixture) {
		if b.name == inTransaction.name {
			b.warm() // a caller on a server would then send its own request
		}
		b.hold()
		b.store.ignoresContext = true
		sent, waits := b.start(newCall(counter(9), "k")), b.start(newCall(counter(9), "k"))
		late, cancel := context.WithTimeout(background, time.Millisecond)
		defer cancel()
		gone, leave := context.WithCancel(background)
		expired, cancelled := b.startFor(late, newCall(counter(9), "k")), b.startFor(gone, newCall(counter(9), "k"))
		leave()
		b.group.Wait()
		b.failed(sent, storage.ErrOutcomeUnknown, storage.ErrUnavailable)
		b.failed(waits, storage.ErrUnavailable, storage.ErrNotApplied)
		b.failed(expired, context.DeadlineExceeded, storage.ErrNotApplied) // the caller's context ended it
		b.failed(cancelled, context.Canceled, storage.ErrNotApplied)
		require.InDelta(b, time.Second, sent.took, float64(expiryGrace))
		require.Equal(b, []time.Duration{time.Second, time.Millisecond, 0}, []time.Duration{waits.took, expired.took, cancelled.took})
		b.releaseAll()
	})
	forEachWay(t, []way{bySwaps, onlySwaps}, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.hold() // the load waits; it stores nothing
		c := b.failed(b.decide(newCall(counter(9), "k")), storage.ErrUnavailable, storage.ErrNotApplied)
		require.Equal(b, time.Second, c.took)
		b.releaseAll()
	})
}

// The callers of a key wait for each other. If the store does not answer, they must not take that for contention, and the
// circuit breaker must open.
func TestOutageIsNotContention(t *testing.T) {
	for _, takes := range []time.Duration{0, 400 * time.Millisecond} {
		forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
			if b.hold(); takes > 0 {
				b.releaseAll()
				b.store.before = func([]string) error {
					time.Sleep(takes)
					return notSent
				}
			}
			var calls []*call
			for range 30 {
				calls = append(calls, b.start(newCall(counter(1000), "k")))
				time.Sleep(100 * time.Millisecond)
			}
			b.group.Wait()
			for _, c := range calls {
				require.NotErrorIs(b, c.err, storage.ErrContended)
				require.NotContains(b, c.err.Error(), storage.ErrContended.Error())
				if !errors.Is(c.err, storage.ErrOutcomeUnknown) {
					require.ErrorIs(b, c.err, storage.ErrUnavailable)
				}
				if takes > 0 {
					require.ErrorContains(b, c.err, "connection refused", "also of calls that were not sent")
				}
			}
			require.Less(b, calls[29].took, time.Second, "the circuit breaker is open")
			if takes == 0 {
				b.releaseAll()
			}
		})
	}
}

// The store answers the first call, but the second one waits for that most of the time.
func TestWaitForCallsOfTheSameKeyIsContention(t *testing.T) {
	forEachWay(t, []way{bySwaps}, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.takes = 400 * time.Millisecond
		first, second := b.start(newCall(counter(9), "k")), b.start(newCall(counter(9), "k"))
		b.finish(first)
		b.failed(second, storage.ErrContended, storage.ErrNotApplied)
	})
}

// The store answers once, and then it fails. Each call waits for the ones before it.
func TestWaitForACallThatFailsIsAnOutage(t *testing.T) {
	forEachWay(t, []way{bySwaps}, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.takes = 10 * time.Millisecond
		fails := time.Now().Add(15 * time.Millisecond) // after the load of the first call
		b.store.before = func([]string) error {
			if time.Now().After(fails) {
				return notSent
			}
			return nil
		}
		calls := []*call{b.start(newCall(counter(9), "k")), b.start(newCall(counter(9), "k")), b.start(newCall(counter(9), "k"))}
		b.group.Wait()
		for _, c := range calls {
			b.failed(c, storage.ErrUnavailable, storage.ErrNotApplied)
		}
	})
}

// The server declined the call, and took most of the time for that.
func TestSlowStoreIsNotContention(t *testing.T) {
	for _, takes := range []time.Duration{600 * time.Millisecond, time.Second + expiryGrace/2} {
		forEachWay(t, []way{declined}, engine.Options{Timeout: time.Second}, func(b *fixture) {
			b.store.takes, b.store.ignoresContext = takes, true
			b.failed(b.decide(newCall(counter(9), "k")), storage.ErrUnavailable, storage.ErrNotApplied)
		})
	}
}

// Clients of databases may ignore a context. A caller sends its own request only to a server that has just answered.
func TestCallReturnsFromAServerThatHangsAfterAPauseOrAFailure(t *testing.T) {
	for _, pause := range []time.Duration{0, 10 * time.Millisecond} {
		forEachWay(t, []way{onServer}, engine.Options{Timeout: time.Second}, func(b *fixture) {
			b.warm()
			b.store.ignoresContext = true
			b.store.before = func([]string) error {
				b.hold()
				return notSent
			}
			if time.Sleep(pause); pause > 0 {
				b.hold()
			}
			require.InDelta(b, time.Second, b.decide(newCall(counter(9), "k")).took, float64(expiryGrace))
			b.releaseAll()
		})
	}
}

func TestPeekIsNeverErrOutcomeUnknown(t *testing.T) {
	coldAndWarm(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.hold()
		b.failed(b.decide(newCallOf(driver.Peek, nil, "k")), storage.ErrUnavailable, storage.ErrNotApplied)
		b.releaseAll()
		b.store.after = always(errLost)
		c := b.decide(newCallOf(driver.Peek, nil, "k"))
		require.Error(b, c.err)
		require.NotErrorIs(b, c.err, storage.ErrOutcomeUnknown)
	})
}

// The last attempt only runs out of time. The error of an earlier attempt says what is wrong.
func TestTimeoutKeepsTheReasonOfAnEarlierAttempt(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.before = func([]string) error {
			b.hold()
			return notSent
		}
		for range 2 { // the second time, the circuit breaker is open
			c := b.decide(newCall(counter(9), "k"))
			require.ErrorIs(b, c.err, storage.ErrUnavailable)
			require.ErrorContains(b, c.err, "connection refused")
		}
		b.releaseAll()
	})
}

func TestMalformedReplyIsErrOutcomeUnknown(t *testing.T) {
	wrong := map[string]func(*driver.Batch){
		"no records":       func(b *driver.Batch) { b.Found = nil },
		"too many records": func(b *driver.Batch) { b.Found = append(b.Found, storage.Record{}) },
		"too many errors":  func(b *driver.Batch) { b.KeyErr = make([]error, len(b.Keys)+1) },
	}
	for name, lie := range wrong {
		forEachWay(t, []way{lying(lie)}, engine.Options{Timeout: time.Second}, func(b *fixture) {
			c := b.decide(newCall(counter(9), "k"))
			require.False(b, c.allowed)
			require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown, "%s: the server may have stored it", name)
		})
	}
}

// wrongCount is a store that returns the wrong records.
type wrongCount struct {
	*fakeStore
	records []storage.Record
}

func (s wrongCount) Load(context.Context, ...string) ([]storage.Record, time.Time, error) {
	return s.records, time.Now(), nil
}

func TestWrongNumberOfRecordsIsAnError(t *testing.T) {
	for _, wrong := range [][]storage.Record{nil, make([]storage.Record, 2)} {
		loads := way{name: "loads", open: func(f *fakeStore) storage.Store { return wrongCount{f, wrong} }}
		forEachWay(t, []way{loads}, engine.Options{}, func(b *fixture) {
			c := b.decide(newCall(counter(9), "k"))
			require.ErrorContains(b, c.err, fmt.Sprint(len(wrong), " records to 1 keys"))
			require.ErrorIs(b, c.err, storage.ErrNotApplied)
		})
	}
}

// The timeout of a call counts from when it began, which can be before Decide.
func TestTimeoutCountsFromTheBeginOfTheCall(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.hold()
		for _, left := range []time.Duration{400 * time.Millisecond, 0, -time.Second} {
			c := newCall(counter(9), "k")
			c.Began = time.Now().Add(left - time.Second)
			b.decide(c)
			require.InDelta(b, max(left, 0), c.took, float64(expiryGrace))
			require.ErrorIs(b, c.err, storage.ErrUnavailable)
			require.Equal(b, left > 0, len(b.store.tripsSoFar()) > 0, "without time left, there is no round trip")
			b.forgetTrips()
		}
		b.releaseAll()
	})
}

// The store gets the context of a caller that sends its own request.
func TestCancelledCallReturnsAtOnce(t *testing.T) {
	coldAndWarm(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.hold()
		ctx, cancel := context.WithCancel(background)
		c := b.startFor(ctx, newCall(counter(9), "k"))
		cancel()
		synctest.Wait()
		require.True(b, c.returned)
		require.ErrorIs(b, c.err, context.Canceled)
		b.releaseAll()
	})
}

// The engine still waits for an error that says more, and the context ends meanwhile.
func TestContextThatEndsAfterTheTimeoutIsNotTheReason(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{Timeout: 100 * time.Millisecond}, func(b *fixture) {
		b.hold()
		b.store.ignoresContext = true
		ctx, cancel := context.WithTimeout(background, 110*time.Millisecond)
		defer cancel()
		require.ErrorIs(b, b.decideFor(ctx, newCall(counter(9), "k")).err, storage.ErrUnavailable)
		b.releaseAll()
	})
}

// Thousands of requests with all kinds of contexts wait while round trips hang.
func TestNoCallTakesLongerThanItsTimeout(t *testing.T) {
	const timeout = 100 * time.Millisecond
	for _, inFlight := range []int{1, 2, 8} {
		forEachWay(t, remoteWays, engine.Options{MaxRoundTrips: inFlight, Timeout: timeout}, func(b *fixture) {
			b.hold()
			r := rand.New(rand.NewPCG(1, uint64(inFlight)))
			for i := range 1000 {
				ctx, cancel := background, context.CancelFunc(func() {})
				switch i % 3 {
				case 1:
					ctx, cancel = context.WithCancel(ctx)
				case 2:
					ctx, cancel = context.WithTimeout(ctx, time.Duration(1+r.IntN(100))*time.Millisecond)
				}
				c, pause := newCall(counter(9), fmt.Sprint(r.IntN(700))), time.Duration(r.IntN(300))*time.Millisecond
				b.group.Go(func() {
					defer cancel()
					time.Sleep(pause)
					b.decideFor(ctx, c)
					if c.err == nil || errors.Is(c.err, storage.ErrOverloaded) || c.took > timeout+expiryGrace {
						b.Errorf("%v after %v", c.err, c.took)
					}
				})
			}
			b.group.Wait()
			b.releaseAll()
			time.Sleep(time.Second)
			b.allowed(b.decide(newCall(counter(9), "after")))
		})
	}
}

// Tests with a limiter in a package variable use one engine in several bubbles of testing/synctest.
func TestEngineWorksInSeveralSynctestBubbles(t *testing.T) {
	for _, w := range remoteWays {
		f := newFakeStore()
		e := engine.New(w.open(f), engine.Options{Timeout: 50 * time.Millisecond})
		for range 4 {
			synctest.Test(t, func(t *testing.T) {
				b := &fixture{T: t, way: w, store: f, engine: e}
				for i := range 20 {
					b.start(newCall(counter(1000), fmt.Sprint(i%7)))
				}
				b.group.Wait()
				synctest.Wait()
				require.True(t, e.Idle())
			})
		}
		b := &fixture{T: t, way: w, store: f, engine: e}
		b.allowed(b.decide(newCall(counter(1000), "outside")))
	}
}

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
					b.failed(c, storage.ErrProgram)
					found = true
				}
			}
			require.True(b, found, name)
		})
	}
}

func TestWrongDenialIsNotCached(t *testing.T) {
	forEachWay(t, []way{lying(func(b *driver.Batch) { b.Requests[0].Applied = 1 })}, engine.Options{}, func(b *fixture) {
		b.store.put("k", "x")
		for range 3 {
			c := b.decide(newCall(counter(1), "k"))
			require.ErrorIs(b, c.err, storage.ErrProgram)
			require.False(b, c.cached)
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

		b.forgetTrips()
		later := newCall(counter(9), "huge")
		later.before = func() error {
			if len(later.times) == 1 {
				return engine.ErrDeclined // the evaluator declines the denial of the server
			}
			return nil
		}
		b.denied(b.decide(later))
		require.Equal(b, []string{"run huge", "load huge"}, b.store.trips)
	})
}
