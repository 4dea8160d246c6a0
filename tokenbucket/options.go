package tokenbucket

import (
	"fmt"
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
	case !o.regains(o.burst()):
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

// inRange is Validate without the words, but for the time to regain the burst.
func (o *Options) inRange() bool {
	return uint64(o.Limit.Count-1) < algo.MaxCount && o.Limit.Period >= 1 &&
		uint64(o.Burst) <= algo.MaxCount && uint(o.Refill) <= uint(Interval) && o.Cost >= 0
}

// regains reports whether that many tokens come back within 2^62 ns.
func (o *Options) regains(tokens int64) bool {
	return !u128.Mul(algo.MaxCount, o.speed()).Less(u128.Mul(o.refills(tokens), int64(o.Limit.Period)))
}

// speed is the weight that accrues every nanosecond; see decide.
func (o *Options) speed() int64 {
	if o.Refill == Continuous {
		return o.Limit.Count
	}
	return 1
}

// batch is the tokens of one refill.
func (o *Options) batch() int64 {
	if o.Refill == Continuous {
		return 1
	}
	return o.Limit.Count
}

// tokens is what that many refills give.
func (o *Options) tokens(refills int64) int64 {
	if o.Refill == Continuous {
		return refills
	}
	return u128.Mul(refills, o.Limit.Count).Int64()
}

// refills is how many refills it takes to regain that many tokens, of which
// there is at least one.
func (o *Options) refills(tokens int64) int64 {
	if o.Refill == Continuous {
		return tokens
	}
	return (tokens-1)/o.Limit.Count + 1
}

// Bound is the most tokens that can be taken in any interval of that length, 0
// for an empty one. With continuous refill it is
//
//	Burst + floor(Count*(interval-1)/Period)
//
// and with interval refill, of which none gives back more than the burst,
//
//	Burst + min(Count, Burst)*ceil((interval-1)/Period)
//
// A larger bound than math.MaxInt64 is told as that.
func Bound(o Options, interval time.Duration) int64 {
	if interval < 1 || o.Validate() != nil {
		return 0
	}
	burst, period := o.burst(), int64(o.Limit.Period)
	var flow int64
	if o.Refill == Continuous {
		flow, _ = u128.Mul(o.Limit.Count, int64(interval)-1).DivMod(period)
	} else {
		refills := u128.From(int64(interval) - 1).CeilDiv(period)
		flow = u128.Mul(min(o.Limit.Count, burst), refills).Int64()
	}
	return u128.From(burst).Add(u128.From(flow)).Int64()
}
