package gcra

import (
	"fmt"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/u128"
)

// Options configures the algorithm. The zero value is not valid: Limit is required.
type Options struct {
	// Limit is the sustained rate. The emission interval is exactly Period/Count.
	Limit algo.Limit
	// Burst is the most units that can be taken at once; 0 means Limit.Count. The
	// time to refill it, Burst*Period/Count, must be at most 2^62 ns (146 years).
	Burst int64
	// Cost is how many units a request takes; 0 means 1. A negative Cost is not valid.
	Cost int64
}

// Validate returns an error that names the first option that is not valid.
func (o Options) Validate() error {
	if err := o.Limit.Validate(); err != nil {
		return fmt.Errorf("gcra: %w", err)
	}
	switch {
	case o.Burst < 0:
		return fmt.Errorf("gcra: Burst must be at least 1, or 0 for the limit's count, got %d", o.Burst)
	case o.Burst > algo.MaxCount:
		return fmt.Errorf("gcra: Burst must be at most 2^62, got %d", o.Burst)
	case !o.refillsInTime(o.capacity()):
		return fmt.Errorf("gcra: a burst of %d at %v takes longer than 2^62 ns (146 years) to refill; use a smaller burst or a faster limit", o.burst(), o.Limit)
	case o.Cost < 0:
		return fmt.Errorf("gcra: Cost is %d: %w", o.Cost, algo.ErrCost)
	}
	return nil
}

// inRange reports whether the options are valid, apart from the time to refill the burst.
// It is faster than Validate.
func (o *Options) inRange() bool {
	return uint64(o.Limit.Count-1) < algo.MaxCount && o.Limit.Period >= 1 &&
		uint64(o.Burst) <= algo.MaxCount && o.Cost >= 0
}

// refillsInTime reports whether Burst*Period/Count <= 2^62, given Burst*Period.
func (o *Options) refillsInTime(capacity u128.Uint) bool {
	return !u128.Mul(algo.MaxCount, o.Limit.Count).Less(capacity)
}

// capacity returns Burst*Period, the weight of the burst; see decide.
func (o *Options) capacity() u128.Uint {
	return u128.Mul(o.burst(), int64(o.Limit.Period))
}

func (o *Options) burst() int64 { return algorithm.Or(o.Burst, o.Limit.Count) }
