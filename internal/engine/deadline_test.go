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
