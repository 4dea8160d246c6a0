package gcra

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
)

// State is the use of one key. The zero State is a new key.
//
// State holds units, not the theoretical arrival time, because units stay the same when
// the limit changes. The theoretical arrival time is
//
//	TAT = At + (Used + Part/Period) * Limit.Period/Limit.Count
type State struct {
	At     int64         // time of the last paid step, in ns since the Unix epoch
	Used   int64         // whole units in use after that step, at most 2^62
	Part   int64         // Part/Period of one more unit is in use
	Period time.Duration // period of the limit at that step
}

// isNormal reports whether a step with that period can return s.
func (s *State) isNormal(period time.Duration) bool {
	return s.Period == period && uint64(s.Part) < uint64(period) &&
		uint64(s.Used) <= algo.MaxCount && uint64(s.At) <= algo.MaxInstant
}

// normalized returns the State nearest to s that a step can return.
func (s State) normalized() State {
	if s == (State{}) {
		return s
	}
	s.At = min(max(s.At, 0), algo.MaxInstant)
	s.Used = min(max(s.Used, 0), algo.MaxCount)
	s.Period = max(s.Period, 1)
	s.Part = min(max(s.Part, 0), int64(s.Period)-1)
	return s
}

// withPeriod returns s with Part converted to that period, rounded up.
func (s State) withPeriod(period time.Duration) State {
	if s = s.normalized(); s.Period != period && s.Part > 0 {
		s.Part = u128.Mul(s.Part, int64(period)).CeilDiv(int64(s.Period))
	}
	if s.Period = period; s.Part == int64(period) {
		s.Used, s.Part = min(s.Used+1, algo.MaxCount), 0
	}
	return s
}

// weight returns the units in use, times Period; see decide.
func (s *State) weight() u128.Uint {
	return u128.Mul(s.Used, int64(s.Period)).Add(u128.From(s.Part))
}

func (s *State) usedRoundedUp() int64 {
	if s.Part > 0 {
		return s.Used + 1
	}
	return s.Used
}

// drain brings s forward to now. If now is before s.At, it does nothing.
func (s *State) drain(now, count int64) {
	if now > s.At {
		inUse := s.weight().Sub(u128.Mul(now-s.At, count))
		s.At = now
		s.Used, s.Part = inUse.DivMod(int64(s.Period))
	}
}

// addUsed adds units to those in use; units may be negative.
func (s *State) addUsed(units int64) {
	s.Used += min(units, max(0, algo.MaxCount-s.usedRoundedUp()))
	if s.Used < 0 {
		s.Used, s.Part = 0, 0
	}
}
