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

// A store that ignores its context keeps no caller.
func TestACallerLeavesAStoreThatIgnoresItsContext(t *testing.T) {
	each(t, remoteWays, engine.Options{Timeout: time.Second, MaxRoundTrips: 1}, func(b *bench) {
		b.close()
		b.store.deaf = true
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
			require.LessOrEqual(b, calls[i].took, want+ending)
		}
		require.ErrorIs(b, calls[2].err, context.DeadlineExceeded)
		require.ErrorIs(b, calls[3].err, context.Canceled)
		b.open()
	})
}

// A caller that sends its own request hears of its end from the store, which gets the caller's context.
func TestACallerThatSendsItsOwnRequestLeavesInTime(t *testing.T) {
	each(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *bench) {
		b.warm()
		b.close()
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		hasty := b.startFor(ctx, newCall(counter(9), "k"))
		ctx, leave := context.WithCancel(background)
		gone := b.startFor(ctx, newCall(counter(9), "k"))
		time.Sleep(50 * time.Millisecond)
		leave()
		synctest.Wait()
		require.True(b, gone.returned)
		require.ErrorIs(b, gone.err, context.Canceled)
		b.group.Wait()
		require.ErrorIs(b, hasty.err, context.DeadlineExceeded)
		require.Equal(b, 100*time.Millisecond, hasty.took)
		b.open()
	})
}

// Thousands wait behind round trips that hang, with contexts of every kind.
func TestNobodyWaitsLongerThanTheTimeout(t *testing.T) {
	const timeout = 100 * time.Millisecond
	for _, inFlight := range []int{1, 2, 8} {
		each(t, remoteWays, engine.Options{MaxRoundTrips: inFlight, Timeout: timeout}, func(b *bench) {
			b.close()
			r := rand.New(rand.NewPCG(1, uint64(inFlight)))
			for i := range 2000 {
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
					if c.err == nil || errors.Is(c.err, storage.ErrOverloaded) || c.took > timeout+ending {
						b.Errorf("%v after %v", c.err, c.took)
					}
				})
			}
			b.group.Wait()
			b.open()
			time.Sleep(time.Second)
			b.allowed(b.decide(newCall(counter(9), "after")))
		})
	}
}

// An engine of a package goes from bubble to bubble, as tests do with a limiter that is a variable of their package.
func TestOneEngineInManyBubbles(t *testing.T) {
	for _, w := range remoteWays {
		f := newFake()
		e := engine.New(w.open(f), engine.Options{Timeout: 50 * time.Millisecond})
		for range 4 {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{T: t, way: w, store: f, engine: e}
				for i := range 20 {
					b.start(newCall(counter(1000), fmt.Sprint(i%7)))
				}
				b.group.Wait()
				synctest.Wait()
				require.True(t, e.Idle())
			})
		}
		b := &bench{T: t, way: w, store: f, engine: e}
		b.allowed(b.decide(newCall(counter(1000), "outside")))
	}
}

// A store that panics, as drivers do, neither ends the program nor blocks the others.
func TestAPanicOfTheStoreIsThatOfItsCallers(t *testing.T) {
	for _, warm := range []bool{false, true} {
		each(t, append(remoteWays, callerWays...), engine.Options{MaxRoundTrips: 1}, func(b *bench) {
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
