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
)

func TestCallEndsAlthoughTheStoreIgnoresItsContext(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, MaxRoundTrips: 1}, func(b *fixture) {
		b.hold()
		b.store.ignoresContext = true
		deadline, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		cancelled, leave := context.WithCancel(background)
		calls := []*call{b.start(newCall(counter(9), "k"))}
		calls = append(calls, b.start(newCall(counter(9), "k")), b.startFor(deadline, newCall(counter(9), "k")), b.startFor(cancelled, newCall(counter(9), "k")))
		time.Sleep(50 * time.Millisecond)
		leave()
		b.group.Wait()
		for i, want := range []time.Duration{time.Second, time.Second, 100 * time.Millisecond, 50 * time.Millisecond} {
			require.Error(b, calls[i].err)
			require.GreaterOrEqual(b, calls[i].took, want)
			require.LessOrEqual(b, calls[i].took, want+expiryGrace)
		}
		require.ErrorIs(b, calls[2].err, context.DeadlineExceeded)
		require.ErrorIs(b, calls[3].err, context.Canceled)
		b.releaseAll()
	})
}

// A decision can need two requests. The second one gets the time that the first one has left.
func TestTimeoutCountsFromBegan(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.hold()
		c := newCall(counter(9), "k")
		c.Began = time.Now().Add(-700 * time.Millisecond)
		b.decide(c)
		require.ErrorIs(b, c.err, storage.ErrUnavailable)
		require.GreaterOrEqual(b, c.took, 300*time.Millisecond)
		require.LessOrEqual(b, c.took, 300*time.Millisecond+expiryGrace)
		b.releaseAll()
	})
}

// The store gets the context of a caller that sends its own request.
func TestCallThatSendsItsOwnRequestEndsInTime(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.warm()
		b.hold()
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		limited := b.startFor(ctx, newCall(counter(9), "k"))
		ctx, leave := context.WithCancel(background)
		gone := b.startFor(ctx, newCall(counter(9), "k"))
		time.Sleep(50 * time.Millisecond)
		leave()
		synctest.Wait()
		require.True(b, gone.returned)
		require.ErrorIs(b, gone.err, context.Canceled)
		b.group.Wait()
		require.ErrorIs(b, limited.err, context.DeadlineExceeded)
		require.Equal(b, 100*time.Millisecond, limited.took)
		b.releaseAll()
	})
}

// A transaction cannot notice that a context ends while it writes to a slow disk.
func TestCallLeavesATransactionThatIgnoresItsContext(t *testing.T) {
	forEachWay(t, []way{inTransaction}, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.warm()
		b.store.ignoresContext = true
		b.hold()
		late := b.start(newCall(counter(9), "k"))
		time.Sleep(time.Second + expiryGrace)
		synctest.Wait()
		returned := late.returned
		b.releaseAll()
		b.group.Wait()
		require.True(b, returned, "the call has waited for the transaction")
		require.ErrorIs(b, late.err, storage.ErrOutcomeUnknown)

		b.warm()
		b.hold()
		ctx, leave := context.WithCancel(background)
		cancelled := b.startFor(ctx, newCall(counter(9), "k"))
		leave()
		synctest.Wait()
		returned = cancelled.returned
		b.releaseAll()
		b.group.Wait()
		require.True(b, returned, "the cancelled call has waited for the transaction")
		require.ErrorIs(b, cancelled.err, storage.ErrOutcomeUnknown)
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

// A panic of a database driver is raised in the callers of the round trip. Later requests work.
func TestPanicOfTheStoreIsRaisedInItsCallers(t *testing.T) {
	for _, warm := range []bool{false, true} {
		forEachWay(t, append(remoteWays, callerWays...), engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
			if warm {
				b.warm()
			}
			for range 3 {
				b.store.before = func([]string) error { panic("driver") }
				require.Equal(b, "driver", b.decide(newCall(counter(9), "k")).panicked)
				b.store.before = nil
				b.allowed(b.decide(newCall(counter(9), "k")))
			}
		})
	}
}
