package tokenbucket

import (
	"fmt"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// Options configures the algorithm. Limit is required.
type Options struct {
	// Limit is the refill rate. algo.Limit.Rate rounds a few.
	Limit algo.Limit
	// Burst is the capacity of the bucket, at most algo.MaxCount; 0 means Limit.Count. It must refill in less than 71 years.
	Burst  int64
	Refill Refill
	// Cost is the tokens of a Step, Peek, Refund or Charge; 0 means 1. New requires 0 or 1.
	Cost int64
}

// Refill is how a bucket is refilled; the default is Continuous.
type Refill int

const (
	// Continuous adds one token at a time, at equal intervals.
	Continuous Refill = iota
	// Interval adds Count tokens at the end of each Period. The first one starts at the request that found the bucket full.
	Interval
)

// String returns the word used in a spec: "continuous" or "interval".
func (r Refill) String() string {
	return policy.Word("Refill", int(r), "continuous", "interval")
}

// Validate returns an error that names the first invalid option.
func (o Options) Validate() error {
	if err := o.Limit.Validate(); err != nil {
		return fmt.Errorf("tokenbucket: %w", err)
	}
	switch {
	case o.Burst < 0:
		return fmt.Errorf("tokenbucket: Burst must be at least 1, or 0 for the limit's count, got %d", o.Burst)
	case o.Burst > algo.MaxCount:
		return fmt.Errorf("tokenbucket: Burst must be at most 2^40 (%d), got %d", algo.MaxCount, o.Burst)
	case o.Refill != Continuous && o.Refill != Interval:
		return fmt.Errorf("tokenbucket: Refill must be Continuous or Interval, got %d", int(o.Refill))
	case o.Cost < 0:
		return fmt.Errorf("tokenbucket: Cost is %d: %w", o.Cost, algo.ErrCost)
	case o.Refill == Interval:
		if most := o.longestBurst(); o.burst() > most {
			return fmt.Errorf("tokenbucket: a burst of %d at %v takes 71 years or longer to refill; use a burst of %d, or a faster limit", o.burst(), o.Limit, most)
		}
		return nil
	}
	if _, err := o.Limit.Rate(o.burst()); err != nil {
		return fmt.Errorf("tokenbucket: %w", err)
	}
	return nil
}

// arguments sets args, which is zero, to the numbers of the arithmetic. If the options are not valid, args stays zero. It is
// faster than Validate. It sets the fields one by one, because a CPU waits before it can copy a struct that was just written.
func (o *Options) arguments(args *arguments) {
	if !o.Limit.IsValid() || uint64(o.Burst) > uint64(algo.MaxCount) || uint(o.Refill) > uint(Interval) || o.Cost < 0 {
		return
	}
	burst := o.burst()
	if o.Refill == Continuous {
		if rate, ok := o.Limit.FastRate(burst); ok {
			args.burst, args.unit, args.drain, args.every, args.most = burst, rate.Unit, rate.Drain, 1, algo.MaxLevel
		}
		return
	}
	every := o.Limit.Period.Microseconds()
	if burst > o.longestBurst() {
		return
	}
	args.burst, args.unit, args.drain, args.every = burst, 1, o.Limit.Count, every
	args.most = min(algo.MaxLevel, policy.MulDiv(algo.MaxLevel/every, o.Limit.Count, 1))
}

// longestBurst returns the largest burst that interval refill fills in time.
func (o *Options) longestBurst() int64 {
	return policy.MulDiv(int64(algo.MaxPeriod/o.Limit.Period), o.Limit.Count, 1)
}

func (o *Options) burst() int64 { return policy.Or(o.Burst, o.Limit.Count) }
