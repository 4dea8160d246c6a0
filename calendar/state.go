package calendar

import "github.com/sluice-go/sluice/internal/policy"

// State is the use of one key. A State with Used 0 is a new key.
type State struct {
	At   int64 // time of the last paid step, in microseconds since the Unix epoch
	Used int64 // units used in the window of At, at most algo.MaxLevel
}

// Version 1 of the encoding takes 17 bytes, big endian. A key without units in use is empty bytes.
//
//	'c' 1
//	7 bytes: At, at most 2^52-1
//	8 bytes: Used, from 1 to 2^52-1
const tag = 'c'

// AppendState appends the encoding of s to dst: nothing for a new key. If no operation can return s, it
// encodes the nearest State that one can return.
func AppendState(dst []byte, s State) []byte { return policy.Count(s).Normalized().Append(dst, tag) }

// ParseState decodes bytes from AppendState. Empty bytes are the zero State. It refuses any other bytes
// with [algo.ErrState] or [algo.ErrStateVersion].
func ParseState(b []byte) (State, error) {
	c, err := policy.ParseCount(b, tag)
	return State(c), err
}
