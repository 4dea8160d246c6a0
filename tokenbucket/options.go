package tokenbucket

import (
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
)

// Options configure the algorithm. The zero value is not valid: a Limit is needed.
type Options struct {
	// Limit is how many tokens come back, and in what time.
	Limit algo.Limit
	// Burst is how many tokens the bucket holds; 0 means Limit.Count. The time to
	// regain it from nothing is at most 2^62 ns (146 years).
	Burst int64
	// Refill says whether tokens come back one by one or Count at once; the zero
	// value is Continuous.
	Refill Refill
	// Cost is the tokens that a step asks for; 0 means 1. A negative cost is denied.
	Cost int64
}

// Refill says how tokens come back.
type Refill int

const (
	// Continuous gives tokens back one by one, evenly spaced.
	Continuous Refill = iota
	// Interval gives Count tokens back at once, at the end of each whole Period
	// since the payment that found the bucket full.
	Interval
)

// String is the word of a spec: "continuous" or "interval".
func (r Refill) String() string {
	switch r {
	case Continuous:
		return "continuous"
	case Interval:
		return "interval"
	}
	return fmt.Sprintf("Refill(%d)", int(r))
}

// Validate reports what is wrong with the options, if anything.
func (o Options) Validate() error {
	if err := o.Limit.Validate(); err != nil {
		return fmt.Errorf("tokenbucket: %w", err)
	}
	switch {
	case o.Burst < 0:
		return fmt.Errorf("tokenbucket: Burst must be at least 1, or 0 for the limit's count, got %d", o.Burst)
	case o.Burst > algo.MaxCount:
		return fmt.Errorf("tokenbucket: Burst must be at most 2^62, got %d", o.Burst)
	case o.Refill != Continuous && o.Refill != Interval:
		return fmt.Errorf("tokenbucket: Refill must be Continuous or Interval, got %d", int(o.Refill))
	case o.terms().batch == 0:
		return fmt.Errorf("tokenbucket: a burst of %d at %v takes longer than 2^62 ns to regain", o.burst(), o.Limit)
	case o.Cost < 0:
		return fmt.Errorf("tokenbucket: Cost is %d: %w", o.Cost, algo.ErrCost)
	}
	return nil
}

func (o *Options) burst() int64 {
	if o.Burst == 0 {
		return o.Limit.Count
	}
	return o.Burst
}

func (o *Options) cost() int64 {
	if o.Cost == 0 {
		return 1
	}
	return o.Cost
}

// Terms are what the arithmetic needs of options, alike for both refills: a
// refill of batch tokens is due whenever a weight of period has accrued, and
// speed of that weight accrues every nanosecond. Batch is 0 where the options are
// not valid, but for the cost.
type terms struct {
	refill Refill
	burst  int64
	period int64
	speed  int64
	batch  int64
}

func (o *Options) terms() (t terms) {
	count, period := o.Limit.Count, int64(o.Limit.Period)
	if count < 1 || count > algo.MaxCount || period < 1 || uint64(o.Burst) > algo.MaxCount {
		return t
	}
	t.refill, t.burst, t.period = o.Refill, o.burst(), period
	switch o.Refill {
	case Continuous:
		t.speed, t.batch = count, 1
	case Interval:
		t.speed, t.batch = 1, count
	default:
		return t
	}
	if u128.Mul(algo.MaxCount, t.speed).Less(u128.Mul(t.refills(t.burst), period)) {
		t.batch = 0
	}
	return t
}

// refills is how many refills it takes to regain that many tokens, of which
// there is at least one.
func (t *terms) refills(tokens int64) int64 {
	switch {
	case t.batch == 1:
		return tokens
	case tokens <= t.batch:
		return 1
	}
	return (tokens-1)/t.batch + 1
}

// Bound is the most tokens that can be taken in any interval of that length, 0
// for an empty one. With continuous refill it is
//
//	Burst + floor(Count*(interval-1)/Period)
//
// and with interval refill, of which none gives back more than the burst,
//
//	Burst + min(Count, Burst)*ceil((interval-1)/Period)
func Bound(o Options, interval time.Duration) int64 {
	t := o.terms()
	if interval < 1 || t.batch == 0 || o.Cost < 0 {
		return 0
	}
	var flow int64
	if o.Refill == Continuous {
		flow, _ = u128.Mul(t.speed, int64(interval)-1).DivMod(t.period)
	} else {
		refills := u128.From(int64(interval) - 1).CeilDiv(t.period)
		flow, _ = u128.Mul(min(t.batch, t.burst), refills).DivMod(1)
	}
	if flow > math.MaxInt64-t.burst {
		return math.MaxInt64
	}
	return t.burst + flow
}
