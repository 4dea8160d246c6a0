package tokenbucket

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/u128"
)

// State is the use of one key. The zero State is a new key. Any State with Used 0 is
// equivalent to it. A paid step is an allowed request, a charge or a refund.
type State struct {
	At     int64         // time of the last paid step, in ns since the Unix epoch
	Used   int64         // tokens missing from the bucket after that step, at most 2^62
	Part   int64         // Part/Period of the next refill had accrued by then
	Period time.Duration // period of the limit at that step
}

const tag = 't'

// AppendState appends the encoding of s to dst. A new key appends nothing. If no operation
// can return s, AppendState encodes the nearest State that one can return.
func AppendState(dst []byte, s State) []byte {
	return s.normalized().append(dst)
}

func (s State) append(dst []byte) []byte {
	if s.Used == 0 {
		return dst
	}
	return algorithm.Usage(s).Append(dst, tag)
}

// ParseState decodes bytes from AppendState. Empty bytes are the zero State. For any other
// bytes it returns [algo.ErrState] or [algo.ErrStateVersion].
func ParseState(b []byte) (State, error) {
	s, err := algorithm.ParseUsage(b, tag)
	if s.Used == 0 && len(b) > 0 && err == nil {
		return State{}, algo.ErrState
	}
	return State(s), err
}

// normalized returns the State nearest to s that a step can return.
func (s State) normalized() State {
	if s.Used <= 0 {
		return State{}
	}
	return State(algorithm.Usage(s).Normalized())
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
