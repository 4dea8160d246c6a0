package sluice_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// delayed is a store on another machine: each call takes a while.
type delayed struct {
	storage.Store
	calls atomic.Int64
}

func newDelayed() *delayed { return &delayed{Store: &memory.Store{Clock: time.Now}} }

func (s *delayed) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	s.calls.Add(1)
	sleepAbout(300 * time.Microsecond)
	return s.Store.Load(ctx, keys...)
}

// sleepAbout sleeps for about d, so that goroutines in a bubble of testing/synctest do not stay in step.
func sleepAbout(d time.Duration) { time.Sleep(d/2 + rand.N(d)) }

// The processes share ten slots, which they give back: no process keeps them for itself.
func TestProcessesShareWhatTheyGiveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, grants := newDelayed(), make([]int, 4)
		ctx, cancel := context.WithTimeout(background, 10*time.Second)
		defer cancel()
		var group sync.WaitGroup
		var mu sync.Mutex
		for i := range grants {
			l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("gcra 10/15d")...)
			for range 10 {
				group.Go(func() {
					for ctx.Err() == nil {
						r, d, err := l.Reserve(background, ann, 1)
						if err != nil || !d.Allowed {
							sleepAbout(10 * time.Millisecond)
							continue
						}
						mu.Lock()
						grants[i]++
						mu.Unlock()
						sleepAbout(50 * time.Millisecond)
						_, _ = r.Settle(background, 0)
					}
				})
			}
		}
		group.Wait()
		total := 0
		for _, n := range grants {
			total += n
		}
		require.Greater(t, total, 1000)
		require.Greater(t, float64(slices.Min(grants)), 0.6*float64(total)/4, fmt.Sprint(grants))
	})
}

// If nobody gives units back, a flood of denied calls costs one round trip a second, after the first second also with Reserve.
func TestFloodOfDeniedCallsCostsOneRoundTripASecond(t *testing.T) {
	for _, reserves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newDelayed()
			l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("gcra 1/15d")...)
			require.True(t, must(t)(l.Allow(background, ann)).Allowed)
			flood := func(d time.Duration) (calls int64) {
				before, end := store.calls.Load(), time.Now().Add(d)
				var group sync.WaitGroup
				for range 10 {
					group.Go(func() {
						for time.Now().Before(end) {
							if reserves {
								_, d, err := l.Reserve(background, ann, 1)
								require.False(t, must(t)(d, err).Allowed)
							} else {
								require.False(t, must(t)(l.Allow(background, ann)).Allowed)
							}
							time.Sleep(time.Millisecond)
						}
					})
				}
				group.Wait()
				return store.calls.Load() - before
			}
			first := flood(2 * time.Second)
			require.LessOrEqual(t, first, int64(10+20), "ten callers begin at once, and with Reserve the time doubles from a millisecond to a second")
			require.LessOrEqual(t, flood(10*time.Second), int64(10))
		})
	}
}
