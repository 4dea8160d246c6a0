package fixedwindow

import (
	"encoding/binary"

	"github.com/sluice-go/sluice/algo"
)

// State is the use of one key. The zero State is a new key. Any State with Used 0 is
// equivalent to it.
type State struct {
	Start int64 // time of the first payment in the window, in ns since the Unix epoch
	Used  int64 // units used in the window, at most 2^62
}

const (
	tag     = 'f'
	version = 1
	header  = 10 // tag, version and Start
)

// AppendState appends the encoding of s to dst. A new key appends nothing. If no step can return s,
// AppendState encodes the nearest State that a step can return.
func AppendState(dst []byte, s State) []byte {
	s = s.normalized()
	return s.append(dst)
}

func (s *State) append(dst []byte) []byte {
	if s.Used == 0 {
		return dst
	}
	dst = append(dst, tag, version, 0, 0, 0, 0, 0, 0, 0, 0)
	binary.BigEndian.PutUint64(dst[len(dst)-8:], uint64(s.Start))
	return binary.AppendUvarint(dst, uint64(s.Used))
}

// ParseState decodes bytes from AppendState. Empty bytes are the zero State. For any other
// bytes it returns [algo.ErrState] or [algo.ErrStateVersion].
func ParseState(b []byte) (State, error) {
	if len(b) == 0 {
		return State{}, nil
	}
	if b[0] != tag || len(b) < 2 || b[1] < version {
		return State{}, algo.ErrState
	}
	if b[1] > version {
		return State{}, algo.ErrStateVersion
	}
	if len(b) <= header {
		return State{}, algo.ErrState
	}
	used, n := uint64(b[header]), 1
	if used >= 0x80 {
		used, n = binary.Uvarint(b[header:])
	}
	s := State{Start: int64(binary.BigEndian.Uint64(b[2:])), Used: int64(used)}
	overlong := b[len(b)-1] == 0 // AppendState writes the shortest form
	if n != len(b)-header || overlong || !s.isNormal() {
		return State{}, algo.ErrState
	}
	return s, nil
}

// isNormal reports whether a paid step can return s.
func (s *State) isNormal() bool {
	return uint64(s.Start) <= algo.MaxInstant && uint64(s.Used)-1 < algo.MaxCount
}

// normalized returns the State nearest to s that a step can return.
func (s State) normalized() State {
	if s.Used <= 0 {
		return State{}
	}
	s.Start = min(max(s.Start, 0), algo.MaxInstant)
	s.Used = min(s.Used, algo.MaxCount)
	return s
}
