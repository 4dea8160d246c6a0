package gcra

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
)

// State is what one key has used. The zero State is a key never seen.
//
// Units, rather than the theoretical arrival time that follows from them, so that
// they stay what they are when the limit changes:
//
//	TAT = At + (Used + Part/Period) * Limit.Period/Limit.Count
type State struct {
	At     int64         // the last step that paid, ns since the Unix epoch
	Used   int64         // whole units in use right after it; 2^62 at most
	Part   int64         // and Part/Period of one more
	Period time.Duration // of the limit that it paid under
}

// isNormal reports whether s is one that a step under that period returns.
func (s *State) isNormal(period time.Duration) bool {
	return s.Period == period && uint64(s.Part) < uint64(period) &&
		uint64(s.Used) <= algo.MaxCount && uint64(s.At) <= algo.MaxInstant
}

// normal is s itself where s is one that a step returns, else the nearest that is.
func (s State) normal() State {
	if s == (State{}) {
		return s
	}
	s.At = min(max(s.At, 0), algo.MaxInstant)
	s.Used = min(max(s.Used, 0), algo.MaxCount)
	s.Period = max(s.Period, 1)
	s.Part = min(max(s.Part, 0), int64(s.Period)-1)
	return s
}

// under is s with its part counted in that period, rounding up.
func (s State) under(period time.Duration) State {
	if s = s.normal(); s.Period != period && s.Part > 0 {
		s.Part = u128.Mul(s.Part, int64(period)).CeilDiv(int64(s.Period))
	}
	if s.Period = period; s.Part == int64(period) {
		s.Used, s.Part = min(s.Used+1, algo.MaxCount), 0
	}
	return s
}

// weight is what is in use, a unit weighing Period; see decide.
func (s *State) weight() u128.Uint {
	return u128.Mul(s.Used, int64(s.Period)).Add(u128.From(s.Part))
}

// ceil is the units in use, the part of one counted in full.
func (s *State) ceil() int64 {
	if s.Part > 0 {
		return s.Used + 1
	}
	return s.Used
}

// drain is what time does to s up to now, if that is later.
func (s *State) drain(now, count int64) {
	if now > s.At {
		owed := s.weight().Sub(u128.Mul(now-s.At, count))
		s.At = now
		s.Used, s.Part = owed.DivMod(int64(s.Period))
	}
}

// move brings units into use, or out of it where they are negative.
func (s *State) move(units int64) {
	s.Used += min(units, max(0, algo.MaxCount-s.ceil()))
	if s.Used < 0 {
		s.Used, s.Part = 0, 0
	}
}
