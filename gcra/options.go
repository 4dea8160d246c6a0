package gcra

import (
	"fmt"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// Options configures the algorithm. Limit is required.
type Options struct {
	// Limit is the sustained rate. algo.Limit.Rate rounds a few.
	Limit algo.Limit
	// Burst is the most units that can be taken at once, at most algo.MaxCount; 0 means Limit.Count. It must refill in less than
	// 71 years.
	Burst int64
	// Cost is the units of a Step, Peek, Refund or Charge; 0 means 1. New requires 0 or 1.
	Cost int64
}

// Validate returns an error that names the first invalid option.
func (o Options) Validate() error {
	if err := o.Limit.Validate(); err != nil {
		return fmt.Errorf("gcra: %w", err)
	}
	switch {
	case o.Burst < 0:
		return fmt.Errorf("gcra: Burst must be at least 1, or 0 for the limit's count, got %d", o.Burst)
	case o.Burst > algo.MaxCount:
		return fmt.Errorf("gcra: Burst must be at most 2^40 (%d), got %d", algo.MaxCount, o.Burst)
	case o.Cost < 0:
		return fmt.Errorf("gcra: Cost is %d: %w", o.Cost, algo.ErrCost)
	}
	if _, err := o.Limit.Rate(o.burst()); err != nil {
		return fmt.Errorf("gcra: %w", err)
	}
	return nil
}

// arguments returns the numbers of the arithmetic. It is faster than Validate.
func (o *Options) arguments() arguments {
	if !o.Limit.IsValid() || uint64(o.Burst) > uint64(algo.MaxCount) || o.Cost < 0 {
		return arguments{}
	}
	burst := o.burst()
	rate, ok := o.Limit.FastRate(burst)
	if !ok {
		return arguments{}
	}
	return arguments{burst, rate.Unit, rate.Drain}
}

func (o *Options) burst() int64 { return policy.Or(o.Burst, o.Limit.Count) }
