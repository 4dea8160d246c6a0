package fixedwindow

import "github.com/sluice-go/sluice/internal/policy"

// State is the use of one key. A State with Used 0 is a new key.
type State struct {
	// Start is the time of the first allowed request or charge in the window, in microseconds since the
	// Unix epoch. A window of AlignClock may start earlier.
	Start int64
	Used  int64 // units used in the window, at most algo.MaxLevel
}

// Version 1 of the encoding takes 17 bytes, big endian. A key without units in use is empty bytes.
//
//	'f' 1
//	7 bytes: Start, at most 2^52-1
//	8 bytes: Used, from 1 to 2^52-1
const tag = 'f'

func (s State) count() policy.Count { return policy.Count{At: s.Start, Used: s.Used} }

// AppendState appends the encoding of s to dst: nothing for a new key. If no operation can return s, it
// encodes the nearest State that one can return.
func AppendState(dst []byte, s State) []byte { return s.normalized().append(dst) }

func (s State) append(dst []byte) []byte { return s.count().Append(dst, tag) }

// ParseState decodes bytes from AppendState. Empty bytes are the zero State. It refuses any other bytes
// with [algo.ErrState] or [algo.ErrStateVersion].
func ParseState(b []byte) (State, error) {
	c, err := policy.ParseCount(b, tag)
	return State{c.At, c.Used}, err
}

// normalized returns the State nearest to s that a step can return.
func (s State) normalized() State {
	c := s.count().Normalized()
	return State{c.At, c.Used}
}
