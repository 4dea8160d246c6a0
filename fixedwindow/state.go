package fixedwindow

import (
	"encoding/binary"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// State is the use of one key. A State with Used 0 is a new key.
type State struct {
	// Start is the time of the first allowed request or charge in the window, in microseconds since the Unix epoch. A window of
	// AlignClock may start earlier.
	Start int64
	Used  int64 // units used in the window, at most algo.MaxLevel
}

// Version 1 of the encoding takes 17 bytes, big endian. A key without units in use is empty bytes.
//
//	'f' 1
//	7 bytes: Start, at most 2^52-1
//	8 bytes: Used, from 1 to 2^52-1
const (
	tag  = 'f'
	size = 17
)

// AppendState appends the encoding of s, or of the nearest State that an operation can return. A new key has no bytes.
func AppendState(dst []byte, s State) []byte { return s.normalized().append(dst) }

// append appends the encoding of a normalized State.
func (s State) append(dst []byte) []byte {
	if s.Used == 0 {
		return dst
	}
	dst = append(dst, make([]byte, size)...)
	b := dst[len(dst)-size:]
	binary.BigEndian.PutUint64(b[1:], uint64(s.Start)) // its first byte is 0
	b[0], b[1] = tag, policy.Version
	binary.BigEndian.PutUint64(b[9:], uint64(s.Used))
	return dst
}

// ParseState decodes bytes from AppendState. It returns [algo.ErrState] or [algo.ErrStateVersion] for other bytes.
func ParseState(b []byte) (State, error) {
	if len(b) != size || b[0] != tag || b[1] != policy.Version {
		return State{}, policy.HeaderError(b, tag)
	}
	s := State{
		Start: int64(binary.BigEndian.Uint64(b[1:]) & (1<<56 - 1)),
		Used:  int64(binary.BigEndian.Uint64(b[9:])),
	}
	if s != s.normalized() || s.Used == 0 {
		return State{}, algo.ErrState
	}
	return s, nil
}

// normalized returns the State nearest to s that a step can return.
func (s State) normalized() State {
	if s.Used <= 0 {
		return State{}
	}
	return State{Start: min(max(s.Start, 0), algo.MaxInstant), Used: min(s.Used, algo.MaxLevel)}
}
