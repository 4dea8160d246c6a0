package tokenbucket

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
)

// State is what one key has used. The zero State is a key never seen, and so is
// every State with nothing used.
type State struct {
	Used   int64         // tokens missing from the bucket, as of At; 2^62 at most
	At     int64         // the last step that paid, ns since the Unix epoch
	Part   int64         // of the next refill, what had accrued by At: Part/Period of it
	Period time.Duration // of the limit that it paid under
}

// isNormal reports whether s is one that a step under that period returns after a
// payment.
func (s *State) isNormal(period time.Duration) bool {
	return s.Period == period && uint64(s.Part) < uint64(period) &&
		uint64(s.Used)-1 < algo.MaxCount && uint64(s.At) <= algo.MaxInstant
}

// normal is s itself where s is one that a step returns, else the nearest that is.
func (s State) normal() State {
	if s.Used <= 0 {
		return State{}
	}
	s.Used = min(s.Used, algo.MaxCount)
	s.At = min(max(s.At, 0), algo.MaxInstant)
	s.Period = max(s.Period, 1)
	s.Part = min(max(s.Part, 0), int64(s.Period)-1)
	return s
}

// under is s with its part counted in the period of those options. Of a token it
// is the same fraction, rounded down. Of an interval it is the time since its
// beginning, less the intervals of o in it: those are over, and gave nothing.
func (s State) under(o *Options) State {
	if s = s.normal(); s.Used == 0 || s.Period == o.Limit.Period {
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
