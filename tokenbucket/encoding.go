package tokenbucket

import (
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/usagestate"
)

const tag = 't'

// AppendState appends the encoding of s to dst. A new key appends nothing. If no step can return s,
// AppendState encodes the nearest State that a step can return.
func AppendState(dst []byte, s State) []byte {
	return s.normalized().append(dst)
}

func (s State) append(dst []byte) []byte {
	if s.Used == 0 {
		return dst
	}
	return usagestate.State{At: s.At, Used: s.Used, Part: s.Part, Period: s.Period}.Append(dst, tag)
}

// ParseState decodes bytes from AppendState. Empty bytes are the zero State. For any other
// bytes it returns [algo.ErrState] or [algo.ErrStateVersion].
func ParseState(b []byte) (State, error) {
	t, err := usagestate.Parse(b, tag)
	if t.Used == 0 && len(b) > 0 && err == nil {
		return State{}, algo.ErrState
	}
	return State{Used: t.Used, At: t.At, Part: t.Part, Period: t.Period}, err
}
