package tokenbucket

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
)

// State is the use of one key. The zero State is a new key. Any State with Used 0 is
// equivalent to it.
type State struct {
	Used   int64         // tokens missing from the bucket after the last paid step, at most 2^62
	At     int64         // time of that step, in ns since the Unix epoch
	Part   int64         // Part/Period of the next refill had accrued by then
	Period time.Duration // period of the limit at that step
}

// isNormal reports whether a paid step with that period can return s.
func (s *State) isNormal(period time.Duration) bool {
	return s.Period == period && uint64(s.Part) < uint64(period) &&
		uint64(s.Used)-1 < algo.MaxCount && uint64(s.At) <= algo.MaxInstant
}

// normalized returns the State nearest to s that a step can return.
func (s State) normalized() State {
	if s.Used <= 0 {
		return State{}
	}
	s.Used = min(s.Used, algo.MaxCount)
	s.At = min(max(s.At, 0), algo.MaxInstant)
	s.Period = max(s.Period, 1)
	s.Part = min(max(s.Part, 0), int64(s.Period)-1)
	return s
}

// withPeriod returns s with Part converted to the period of the options. With continuous
// refill, Part stays the same fraction of a token, rounded down. With interval refill, Part
// is a time, and whole intervals of o in it are dropped: they refill nothing.
func (s State) withPeriod(o *Options) State {
	if s = s.normalized(); s.Used == 0 || s.Period == o.Limit.Period {
		return s
	}
	if o.Refill == Interval {
		s.Part %= int64(o.Limit.Period)
	} else {
		s.Part, _ = u128.Mul(s.Part, int64(o.Limit.Period)).DivMod(int64(s.Period))
	}
	s.Period = o.Limit.Period
	return s
}
