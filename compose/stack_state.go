package compose

import (
	"encoding/binary"
	"slices"

	"github.com/sluice-go/sluice/algo"
)

const (
	tag     = 'a'
	version = 1
)

// stackStates decodes the state of a Stack. Call next for each part, then close, which
// returns an error if the state is not valid. Before that, next can return wrong bytes.
type stackStates struct {
	rest    []byte
	encoded bool // false for a new key, which has no bytes
	hasAny  bool // a part had a state
	invalid bool
}

func decodeStates(state []byte) (stackStates, error) {
	switch {
	case len(state) == 0:
		return stackStates{}, nil
	case state[0] != tag || len(state) < 2 || state[1] < version:
		return stackStates{}, algo.ErrState
	case state[1] > version:
		return stackStates{}, algo.ErrStateVersion
	}
	return stackStates{rest: state[2:], encoded: true}, nil
}

// next returns the state of the next part. The caller must not modify it.
func (s *stackStates) next() []byte {
	if !s.encoded {
		return nil
	}
	length, n := binary.Uvarint(s.rest)
	overlong := n > 1 && s.rest[n-1] == 0
	if n <= 0 || overlong || length > uint64(len(s.rest)-n) {
		s.invalid = true
		return nil
	}
	own := s.rest[n : n+int(length)]
	s.rest = s.rest[n+int(length):]
	s.hasAny = s.hasAny || length > 0
	return own
}

func (s *stackStates) close() error {
	if s.invalid || len(s.rest) > 0 || s.encoded && !s.hasAny {
		return algo.ErrState
	}
	return nil
}

// putLength writes the length of the bytes after b[at]. The caller has reserved one byte for
// it at b[at]. A longer length moves the bytes.
func putLength(b []byte, at int) []byte {
	n := len(b) - at - 1
	if n < 1<<7 {
		b[at] = byte(n)
		return b
	}
	var length [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(length[:], uint64(n))
	return slices.Replace(b, at, at+1, length[:k]...)
}
