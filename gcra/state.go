package gcra

import "github.com/sluice-go/sluice/internal/policy"

// State is the use of one key. A State with a Level of 0 is a new key. A paid step is an allowed request, a charge or a refund.
// The theoretical arrival time is
//
//	TAT = At + Level/Unit * Limit.Period/Limit.Count
type State struct {
	At    int64 // time of the last paid step, in microseconds since the Unix epoch
	Level int64 // the units in use after that step times Unit, at most algo.MaxLevel
	Unit  int64 // the weight of a unit at that step; see algo.Rate
}

const tag = 'g'

// AppendState appends the encoding of s, or of the nearest State that an operation can return. A new key has no bytes.
func AppendState(dst []byte, s State) []byte {
	return policy.Usage(s).Normalized().Append(dst, tag)
}

// ParseState decodes bytes from AppendState. It returns [algo.ErrState] or [algo.ErrStateVersion] for other bytes.
func ParseState(b []byte) (State, error) {
	s, err := policy.ParseUsage(b, tag)
	return State(s), err
}
