package gcra

import "github.com/sluice-go/sluice/internal/policy"

// State is the use of one key. A State with a Level of 0 is a new key. A paid step is an allowed request, a charge
// or a refund.
//
// State holds the units in use, not the theoretical arrival time, because they stay the same when the limit
// changes:
//
//	TAT = At + Level/Unit * Limit.Period/Limit.Count
type State struct {
	At    int64 // time of the last paid step, in microseconds since the Unix epoch
	Level int64 // the units in use after that step times Unit, at most algo.MaxLevel
	Unit  int64 // the weight of a unit at that step; see algo.Rate
}

const tag = 'g'

// AppendState appends the encoding of s to dst: nothing for a new key. If no operation can return s, it
// encodes the nearest State that one can return.
func AppendState(dst []byte, s State) []byte {
	return State(policy.Usage(s).Normalized()).append(dst)
}

func (s State) append(dst []byte) []byte {
	if s.Level == 0 {
		return dst
	}
	return policy.Usage(s).Append(dst, tag)
}

// ParseState decodes bytes from AppendState. Empty bytes are the zero State. It refuses any other bytes
// with [algo.ErrState] or [algo.ErrStateVersion].
func ParseState(b []byte) (State, error) {
	s, err := policy.ParseUsage(b, tag)
	return State(s), err
}
