package gcra

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
)

// Options configure the algorithm. The zero value is not valid: a Limit is needed.
type Options struct {
	// Limit is the sustained rate. Its emission interval is Period/Count, exactly.
	Limit algo.Limit
	// Burst is the most units that can be taken at once; 0 means Limit.Count. The
	// time to regain it, Burst*Period/Count, is at most 2^62 ns (146 years).
	Burst int64
	// Cost is the units that a step asks for; 0 means 1. A negative cost is denied.
	Cost int64
}

// Validate reports what is wrong with the options, if anything.
func (o Options) Validate() error {
	if err := o.Limit.Validate(); err != nil {
		return fmt.Errorf("gcra: %w", err)
	}
	switch {
	case o.Burst < 0:
		return fmt.Errorf("gcra: Burst must be at least 1, or 0 for the limit's count, got %d", o.Burst)
	case o.Burst > algo.MaxCount:
		return fmt.Errorf("gcra: Burst must be at most 2^62, got %d", o.Burst)
	case !o.spans(o.capacity()):
		return fmt.Errorf("gcra: a burst of %d at %v takes longer than 2^62 ns to regain", o.burst(), o.Limit)
	case o.Cost < 0:
		return fmt.Errorf("gcra: Cost is %d: %w", o.Cost, algo.ErrCost)
	}
	return nil
}

// inRange is Validate without the words, but for the time to regain the burst.
func (o *Options) inRange() bool {
	return uint64(o.Limit.Count-1) < algo.MaxCount && o.Limit.Period >= 1 &&
		uint64(o.Burst) <= algo.MaxCount && o.Cost >= 0
}

// spans reports whether Burst*Period/Count <= 2^62, given Burst*Period.
func (o *Options) spans(capacity u128.Uint) bool {
	return !u128.Mul(algo.MaxCount, o.Limit.Count).Less(capacity)
}

// capacity is Burst*Period, the weight of a full burst; see decide.
func (o *Options) capacity() u128.Uint {
	return u128.Mul(o.burst(), int64(o.Limit.Period))
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

// Bound is the most units that can be admitted in any interval of that length:
// Burst + floor(Count*(interval-1)/Period), or 0 for an empty interval.
// A larger bound than math.MaxInt64 is told as that.
func Bound(o Options, interval time.Duration) int64 {
	if interval < 1 || o.Validate() != nil {
		return 0
	}
	flow, _ := u128.Mul(o.Limit.Count, int64(interval)-1).DivMod(int64(o.Limit.Period))
	return u128.From(o.burst()).Add(u128.From(flow)).Int64()
}
