package fixedwindow

import (
	"encoding/binary"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
)

// State is the use of one key. The zero State is a new key. Any State with Used 0 is
// equivalent to it.
type State struct {
	// Start is the time of the first allowed request or charge in the window, in ns since the Unix
	// epoch. A window of AlignFirst starts at this time; one of AlignClock may start earlier.
	Start int64
	// Used is the number of units used in the window, at most 2^62.
	Used int64
}

const (
	tag    = 'f'
	header = 10 // the size of tag, version and Start
)

// AppendState appends the encoding of s to dst. A new key appends nothing. If no operation
// can return s, AppendState encodes the nearest State that one can return.
func AppendState(dst []byte, s State) []byte {
	return s.normalized().append(dst)
}

func (s State) append(dst []byte) []byte {
	if s.Used == 0 {
		return dst
	}
	dst = append(dst, tag, algorithm.Version, 0, 0, 0, 0, 0, 0, 0, 0)
	binary.BigEndian.PutUint64(dst[len(dst)-8:], uint64(s.Start))
	return binary.AppendUvarint(dst, uint64(s.Used))
}

// ParseState decodes bytes from AppendState. Empty bytes are the zero State. For any other
// bytes it returns [algo.ErrState] or [algo.ErrStateVersion].
func ParseState(b []byte) (State, error) {
	if len(b) <= header || b[0] != tag || b[1] != algorithm.Version {
		return State{}, algorithm.HeaderError(b, tag)
	}
	used, n := binary.Uvarint(b[header:])
	s := State{Start: int64(binary.BigEndian.Uint64(b[2:])), Used: int64(used)}
	overlong := b[len(b)-1] == 0 // AppendState writes the shortest form
	if n != len(b)-header || overlong || !s.isNormal() {
		return State{}, algo.ErrState
	}
	return s, nil
}

// isNormal reports whether a paid step can return s.
func (s State) isNormal() bool {
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
