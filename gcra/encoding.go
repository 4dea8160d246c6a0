package gcra

import "github.com/sluice-go/sluice/internal/usagestate"

const tag = 'g'

// AppendState appends the encoding of s to dst: nothing for a key never seen. A
// State that no step returns is encoded as the nearest one that could be.
func AppendState(dst []byte, s State) []byte {
	return s.normal().append(dst)
}

func (s State) append(dst []byte) []byte {
	if s.Period == 0 {
		return dst
	}
	return usagestate.State(s).Append(dst, tag)
}

// ParseState decodes what AppendState wrote; no bytes are the zero State. It
// returns [algo.ErrState] or [algo.ErrStateVersion] for anything else.
func ParseState(b []byte) (State, error) {
	t, err := usagestate.Parse(b, tag)
	return State(t), err
}
