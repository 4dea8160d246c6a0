package benchmarks

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A decider asks one limiter, ours or a peer's, for one call of a key.
type decider func(ctx context.Context, key string) (allowed bool, err error)

// A contender is a limiter on a server, or a floor: the least that such a decision
// can cost.
type contender struct {
	name string
	// open makes one that allows count calls per period and key.
	open func(t testing.TB, count int64, period time.Duration) decider
}

// pace is how a contender did for a stretch of time.
type pace struct {
	PerSecond float64       `json:"per_second"`
	P50       time.Duration `json:"p50_ns"`
	P99       time.Duration `json:"p99_ns"`
	Failed    float64       `json:"failed"` // share of the calls that returned an error
}

// callTimeout is the deadline that each call has, as a request of a server has one. A call
// that does not end by then counts as failed.
const callTimeout = 5 * time.Second

// ask makes one call, with a context of its own.
func (d decider) ask(key string) (allowed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return d(ctx, key)
}

// deadline is a context with a deadline for limiters in memory, which do not wait. All
// calls share it, because to make one takes longer than such a decision.
func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// crowd lets that many goroutines decide, each as fast as it can, until the time is
// over. All decisions must be as wanted.
func crowd(decide decider, keys *traffic, goroutines int, length time.Duration, wanted func(allowed bool) bool) pace {
	var group sync.WaitGroup
	var calls, failures, surprises atomic.Int64
	latencies := make([][]time.Duration, goroutines)
	began := time.Now()
	for g := range goroutines {
		group.Go(func() {
			var mine []time.Duration
			last, failed := began, int64(0)
			for i := g * len(keys.order) / goroutines; last.Sub(began) < length; i++ {
				allowed, err := decide.ask(keys.key(i))
				switch {
				case err != nil:
					failed++
				case !wanted(allowed):
					surprises.Add(1)
				}
				now := time.Now()
				mine = append(mine, now.Sub(last))
				last = now
			}
			latencies[g] = mine
			calls.Add(int64(len(mine)))
			failures.Add(failed)
		})
	}
	group.Wait()
	took := time.Since(began)
	if n := surprises.Load(); n > 0 {
		panic(fmt.Sprintf("%d of %d decisions were not as wanted", n, calls.Load()))
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return pace{
		PerSecond: float64(calls.Load()-failures.Load()) / took.Seconds(),
		P50:       all[len(all)/2],
		P99:       all[len(all)*99/100],
		Failed:    float64(failures.Load()) / float64(calls.Load()),
	}
}

func isAllowed(allowed bool) bool { return allowed }
func isDenied(allowed bool) bool  { return !allowed }
func isAnything(bool) bool        { return true }

// median is that of each number of some paces.
func median(paces []pace) (m pace) {
	middle := func(number func(pace) float64) float64 {
		var all []float64
		for _, p := range paces {
			all = append(all, number(p))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	m.PerSecond = middle(func(p pace) float64 { return p.PerSecond })
	m.P50 = time.Duration(middle(func(p pace) float64 { return float64(p.P50) }))
	m.P99 = time.Duration(middle(func(p pace) float64 { return float64(p.P99) }))
	m.Failed = middle(func(p pace) float64 { return p.Failed })
	return m
}
