package tokenbucket

import "github.com/sluice-go/sluice/internal/policy"

// State is the use of one key. A State with a Level of 0 is a new key. A paid step is an allowed request, a charge or a refund.
type State struct {
	At    int64 // time of the last paid step, in microseconds since the Unix epoch
	Level int64 // the weight of the tokens missing after that step, at most algo.MaxLevel

	// Unit is the weight of a token at that step; see algo.Rate. With interval refill a token weighs 1, and Unit is 2^51 plus the
	// microseconds from the last refill to that step. But it is 1 if Period is 1us.
	Unit int64
}

const begun = 1 << 51 // with interval refill, Unit is this plus a time

const tag = 't'

// AppendState appends the encoding of s, or of the nearest State that an operation can return. A new key has no bytes.
func AppendState(dst []byte, s State) []byte {
	return policy.Usage(s).Normalized().Append(dst, tag)
}

// ParseState decodes bytes from AppendState. It returns [algo.ErrState] or [algo.ErrStateVersion] for other bytes.
func ParseState(b []byte) (State, error) {
	s, err := policy.ParseUsage(b, tag)
	return State(s), err
}
