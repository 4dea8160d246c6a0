package gcra

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/u128"
)

// State is the use of one key. The zero State is a new key. A paid step is an allowed request, a
// charge or a refund.
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

const tag = 'g'

// AppendState appends the encoding of s to dst. A new key appends nothing. If no operation
// can return s, AppendState encodes the nearest State that one can return.
func AppendState(dst []byte, s State) []byte {
	return s.normalized().append(dst)
}

func (s State) append(dst []byte) []byte {
	if s.Period == 0 {
		return dst
	}
	return algorithm.Usage(s).Append(dst, tag)
}

// ParseState decodes bytes from AppendState. Empty bytes are the zero State. For any other
// bytes it returns [algo.ErrState] or [algo.ErrStateVersion].
func ParseState(b []byte) (State, error) {
	s, err := algorithm.ParseUsage(b, tag)
	return State(s), err
}

// normalized returns the State nearest to s that a step can return.
func (s State) normalized() State {
	if s == (State{}) {
		return s
	}
	return State(algorithm.Usage(s).Normalized())
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

func (s *State) usedRoundedUp() int64 {
	if s.Part > 0 {
		return s.Used + 1
	}
	return s.Used
}

// adjust refunds or charges r.Cost units and sets r.Paid. It returns the weight of the units in
// use after that, given the weight before. That weight is above that of s for a clock that is
// behind s.At. A refund that empties s empties it for every clock.
func (s *State) adjust(op algorithm.Op, r *algo.Result, inUse u128.Uint) u128.Uint {
	units, period := s.usedRoundedUp(), int64(s.Period)
	switch {
	case op == algorithm.Charge:
		r.Paid = min(r.Cost, max(0, algo.MaxCount-units))
		inUse = inUse.Add(u128.Mul(r.Paid, period))
	case 0 < units && units <= r.Cost:
		r.Paid = -units
		*s = State{}
		return u128.Uint{}
	default:
		r.Paid = -min(r.Cost, units)
		inUse = inUse.Sub(u128.Mul(-r.Paid, period))
	}
	s.Used += r.Paid
	return inUse
}
