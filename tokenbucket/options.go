package tokenbucket

import (
	"fmt"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/u128"
)

// Options configures the algorithm. The zero value is not valid: Limit is required.
type Options struct {
	// Limit is the refill rate: Count tokens every Period.
	Limit algo.Limit
	// Burst is the capacity of the bucket in tokens; 0 means Limit.Count. The time to
	// refill an empty bucket must be at most 2^62 ns (146 years).
	Burst int64
	// Refill is Continuous, the default, or Interval.
	Refill Refill
	// Cost is how many tokens a request takes; 0 means 1. A negative Cost is not valid.
	Cost int64
}

// Refill is how a bucket is refilled.
type Refill int

const (
	// Continuous adds one token at a time, at equal intervals.
	Continuous Refill = iota
	// Interval adds Count tokens at once, at the end of each Period. The first Period
	// starts at the request that found the bucket full.
	Interval
)

// String returns the word used in a spec: "continuous" or "interval".
func (r Refill) String() string {
	return algorithm.Word("Refill", int(r), "continuous", "interval")
}

// Validate returns an error that names the first option that is not valid.
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
	case !o.refillsInTime(o.weight(o.burst())):
		return fmt.Errorf("tokenbucket: a burst of %d at %v takes longer than 2^62 ns (146 years) to refill; use a smaller burst or a faster limit", o.burst(), o.Limit)
	case o.Cost < 0:
		return fmt.Errorf("tokenbucket: Cost is %d: %w", o.Cost, algo.ErrCost)
	}
	return nil
}

func (o *Options) burst() int64 { return algorithm.Or(o.Burst, o.Limit.Count) }

// inRange reports whether the options are valid, apart from the time to refill the burst.
// It is faster than Validate.
func (o *Options) inRange() bool {
	return uint64(o.Limit.Count-1) < algo.MaxCount && o.Limit.Period >= 1 &&
		uint64(o.Burst) <= algo.MaxCount && uint(o.Refill) <= uint(Interval) && o.Cost >= 0
}

// refillsInTime reports whether that weight accrues within 2^62 ns.
func (o *Options) refillsInTime(weight u128.Uint) bool {
	return !u128.Mul(algo.MaxCount, o.speed()).Less(weight)
}

// weight returns the weight of that many tokens, rounded up to whole refills; see decide.
func (o *Options) weight(tokens int64) u128.Uint {
	return u128.Mul(o.refills(tokens), int64(o.Limit.Period))
}

// speed returns the weight that accrues every nanosecond; see decide.
func (o *Options) speed() int64 {
	if o.Refill == Continuous {
		return o.Limit.Count
	}
	return 1
}

// batch returns how many tokens one refill adds.
func (o *Options) batch() int64 {
	if o.Refill == Continuous {
		return 1
	}
	return o.Limit.Count
}

// tokens returns how many tokens that many refills add.
func (o *Options) tokens(refills int64) int64 { return u128.Mul(refills, o.batch()).Int64() }

// refills returns how many refills it takes to add at least that many tokens, which must be
// at least 1.
func (o *Options) refills(tokens int64) int64 {
	if o.Refill == Continuous { // a step takes 6 % longer if it divides by 1 here
		return tokens
	}
	return (tokens-1)/o.Limit.Count + 1
}
