package storage_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

// hanging answers when the time is over.
type hanging struct{ storage.Batcher }

func (*hanging) CompareAndSwap(ctx context.Context, _ ...storage.Swap) ([]storage.Record, bool, error) {
	<-ctx.Done()
	return nil, false, storage.NotApplied(storage.ErrUnavailable)
}

func (*hanging) CompareAndSwapBatch(ctx context.Context, groups ...[]storage.Swap) []storage.Outcome {
	<-ctx.Done()
	outcomes := make([]storage.Outcome, len(groups))
	for i := range outcomes {
		outcomes[i].Err = storage.NotApplied(storage.ErrUnavailable)
	}
	return outcomes
}

// Thousands wait behind round trips that hang, with contexts of every kind.
func TestNobodyWaitsLongerThanTheBudget(t *testing.T) {
	const budget = 100 * time.Millisecond
	for _, inFlight := range []int{1, 2, 8} {
		synctest.Test(t, func(t *testing.T) {
			e := storage.NewEngine(&hanging{}, storage.EngineOptions{InFlight: inFlight, Budget: budget})
			r := rand.New(rand.NewPCG(1, uint64(inFlight)))
			var all sync.WaitGroup
			for i := range 5000 {
				ctx, cancel := background, context.CancelFunc(func() {})
				switch i % 3 {
				case 1:
					ctx, cancel = context.WithCancel(ctx)
				case 2:
					ctx, cancel = context.WithTimeout(ctx, time.Duration(1+r.IntN(100))*time.Millisecond)
				}
				key, pause := fmt.Sprint(r.IntN(700)), time.Duration(r.IntN(300))*time.Millisecond
				all.Go(func() {
					defer cancel()
					time.Sleep(pause)
					began := time.Now()
					_, err := e.Do(ctx, []string{key}, (&count{limit: 9}).decide)
					require.Error(t, err)
					require.False(t, errors.Is(err, storage.ErrOverloaded))
					require.LessOrEqual(t, time.Since(began), budget)
				})
			}
			all.Wait()
			time.Sleep(time.Second)
			synctest.Wait()
			require.True(t, e.Idle())
		})
	}
}

// An engine of a package goes from bubble to bubble, as tests do with a limiter that is
// a variable of their package, and outside.
func TestOneEngineInManyBubbles(t *testing.T) {
	for i, o := range everyEngine() {
		o.Budget = 50 * time.Millisecond
		e := storage.NewEngine(&troubled{scripted: newScripted(), random: rand.New(rand.NewPCG(uint64(i), 7))}, o)
		for n := range 6 {
			if n%3 == 2 {
				callsOfEveryKind(e, n)
				require.Eventually(t, e.Idle, o.Budget+time.Second, time.Millisecond)
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				callsOfEveryKind(e, n)
				time.Sleep(time.Second)
				synctest.Wait()
				require.True(t, e.Idle())
			})
		}
	}
}

// callsOfEveryKind are of keys that meet, on which some callers leave.
func callsOfEveryKind(e *storage.Engine, round int) {
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			ctx := background
			if i%5 == 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(i)*time.Millisecond)
				defer cancel()
			}
			for j := range 4 {
				keys := []string{fmt.Sprint("key ", i%7), fmt.Sprint("own ", round, i, j)}
				_, _ = e.Do(ctx, keys, (&count{limit: 1000}).decide)
			}
		})
	}
	all.Wait()
}
