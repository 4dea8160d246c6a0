package benchmarks

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// A decideFunc makes one call to a limiter.
type decideFunc func(ctx context.Context, key string) (allowed bool, err error)

// A serverLimiter is a limiter with a store on a server, or a floor: the least work that such
// a decision needs.
type serverLimiter struct {
	name string
	// open returns a limiter that allows count calls per period and key.
	open func(t testing.TB, count int64, period time.Duration) decideFunc
	// mayFail means that failed calls are counted. Without it they stop the measurement.
	mayFail bool
}

// Measurement is the result of one turn of a limiter.
type Measurement struct {
	PerSecond  float64 // calls without an error
	Latencies  latencies
	Calls      int64
	Failed     int64 // calls that returned an error
	Wrong      int64 // calls with an unexpected decision
	FirstError string
}

// callTimeout is the timeout of each call. A call that takes longer counts as failed.
const callTimeout = 5 * time.Second

// call makes one call with a new context.
func (d decideFunc) call(key string) (allowed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return d(ctx, key)
}

// deadline returns a context for limiters in memory, which do not wait. All calls share it,
// because making a context takes longer than such a decision.
func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// A loadGenerator runs several callers. Each makes its calls one after another, as fast as it can.
type loadGenerator struct {
	decide  decideFunc
	keys    *sequence
	callers int
	expects func(allowed bool) bool
	// sharesContext means that a caller makes a context only once a second, because making
	// one takes longer than a denial from a cache.
	sharesContext bool
}

// run runs the callers for that time.
func (c loadGenerator) run(length time.Duration) (sum Measurement) {
	var group sync.WaitGroup
	measurements := make([]Measurement, c.callers)
	began := time.Now()
	for i := range measurements {
		group.Go(func() { measurements[i] = c.caller(i*len(c.keys.order)/c.callers, began, length) })
	}
	group.Wait()
	sum = merged(measurements)
	sum.PerSecond = float64(sum.Calls-sum.Failed) / time.Since(began).Seconds()
	return sum
}

// caller makes calls until the time is over. It starts at its own position in the sequence.
func (c loadGenerator) caller(from int, began time.Time, length time.Duration) Measurement {
	p := Measurement{Latencies: newLatencies()}
	ask, stop := c.decide.call, context.CancelFunc(func() {})
	var renewed time.Time
	for i, last := from, began; last.Sub(began) < length; i++ {
		if c.sharesContext && last.Sub(renewed) > time.Second {
			stop()
			ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
			ask, stop = func(key string) (bool, error) { return c.decide(ctx, key) }, cancel
			renewed = last
		}
		allowed, err := ask(c.keys.key(i))
		p.count(err, c.expects(allowed))
		now := time.Now()
		p.Latencies.add(now.Sub(last))
		last = now
	}
	stop()
	return p
}

func (p *Measurement) count(err error, right bool) {
	p.Calls++
	switch {
	case err != nil:
		p.Failed++
		if p.FirstError == "" {
			p.FirstError = err.Error()
		}
	case !right:
		p.Wrong++
	}
}

// check returns an error if calls failed or were decided wrongly.
func (c serverLimiter) check(p Measurement) error {
	if p.Failed > 0 && !c.mayFail {
		return fmt.Errorf("%s: %d of %d calls failed, the first with: %s", c.name, p.Failed, p.Calls, p.FirstError)
	}
	if p.Wrong > 0 {
		return fmt.Errorf("%s: %d of %d calls were allowed or denied wrongly", c.name, p.Wrong, p.Calls)
	}
	return nil
}

// merged adds up measurements of the same time.
func merged(measurements []Measurement) Measurement {
	sum := Measurement{Latencies: newLatencies()}
	for _, p := range measurements {
		sum.PerSecond += p.PerSecond
		sum.Latencies.merge(p.Latencies)
		sum.Calls += p.Calls
		sum.Failed += p.Failed
		sum.Wrong += p.Wrong
		if sum.FirstError == "" {
			sum.FirstError = p.FirstError
		}
	}
	return sum
}

// median returns the median.
func median(numbers []float64) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[len(sorted)/2]
}
