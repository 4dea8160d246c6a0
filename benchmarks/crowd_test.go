package benchmarks

import (
	"context"
	"fmt"
	"slices"
	"sync"
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
	// mayFail says that errors are counted. The calls of other contenders must not fail.
	mayFail bool
}

// pace is how a contender did for a stretch of time.
type pace struct {
	PerSecond  float64   `json:"per_second"` // calls without an error
	Latencies  latencies `json:"latencies"`
	Calls      int64     `json:"calls"`
	Failed     int64     `json:"failed"` // calls that returned an error
	Wrong      int64     `json:"wrong"`  // calls that were allowed or denied against the plan
	FirstError string    `json:"first_error"`
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

// A crowd is a number of callers. Each makes its calls one after another, as fast as it can.
type crowd struct {
	decide  decider
	keys    *traffic
	callers int
	wanted  func(allowed bool) bool
	// keepsContext lets a caller use one context for the calls of a second. To make one takes
	// longer than a denial from a cache.
	keepsContext bool
}

// run lets the callers call until the time is over.
func (c crowd) run(length time.Duration) (sum pace) {
	var group sync.WaitGroup
	paces := make([]pace, c.callers)
	began := time.Now()
	for i := range paces {
		group.Go(func() { paces[i] = c.caller(i*len(c.keys.order)/c.callers, began, length) })
	}
	group.Wait()
	sum = merged(paces)
	sum.PerSecond = float64(sum.Calls-sum.Failed) / time.Since(began).Seconds()
	return sum
}

// caller is one of them, who begins at its own place in the order of keys.
func (c crowd) caller(from int, began time.Time, length time.Duration) pace {
	p := pace{Latencies: newLatencies()}
	ask, stop := c.decide.ask, func() {}
	var renewed time.Time
	for i, last := from, began; last.Sub(began) < length; i++ {
		if c.keepsContext && last.Sub(renewed) > time.Second {
			stop()
			ask, stop = c.decide.within(callTimeout)
			renewed = last
		}
		allowed, err := ask(c.keys.key(i))
		p.count(err, c.wanted(allowed))
		now := time.Now()
		p.Latencies.add(now.Sub(last))
		last = now
	}
	stop()
	return p
}

// within asks with one context for many calls.
func (d decider) within(timeout time.Duration) (ask func(key string) (bool, error), stop func()) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	return func(key string) (bool, error) { return d(ctx, key) }, cancel
}

func (p *pace) count(err error, right bool) {
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

// check refuses a pace with calls that failed or were decided wrongly.
func (c contender) check(p pace) error {
	if p.Failed > 0 && !c.mayFail {
		return fmt.Errorf("%s: %d of %d calls failed, the first with: %s", c.name, p.Failed, p.Calls, p.FirstError)
	}
	if p.Wrong > 0 {
		return fmt.Errorf("%s: %d of %d calls were allowed or denied wrongly", c.name, p.Wrong, p.Calls)
	}
	return nil
}

// merged is several paces at the same time as one.
func merged(paces []pace) pace {
	sum := pace{Latencies: newLatencies()}
	for _, p := range paces {
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

func isAllowed(allowed bool) bool { return allowed }
func isDenied(allowed bool) bool  { return !allowed }
func isAnything(bool) bool        { return true }

// median returns the middle one of some numbers.
func median(numbers []float64) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[len(sorted)/2]
}
