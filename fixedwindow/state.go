package fixedwindow

import (
	"encoding/binary"

	"github.com/sluice-go/sluice/algo"
)

// State is what one key has used. The zero State is a key never seen, and so is
// every State with nothing used.
type State struct {
	Start int64 // the first payment of the window, ns since the Unix epoch
	Used  int64 // units used since; 2^62 at most
}

const (
	tag     = 'f'
	version = 1
	header  = 10 // tag, version and Start
)

// AppendState appends the encoding of s to dst: nothing for a key never seen. A
// State that no step returns is encoded as the nearest one that could be.
func AppendState(dst []byte, s State) []byte {
	s = s.normal()
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

// ParseState decodes what AppendState wrote; no bytes are the zero State. It
// returns [algo.ErrState] or [algo.ErrStateVersion] for anything else.
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
	overlong := b[len(b)-1] == 0 // only the shortest form is ours
	if n != len(b)-header || overlong || !s.isNormal() {
		return State{}, algo.ErrState
	}
	return s, nil
}

// isNormal reports whether s is one that a step returns after a payment.
func (s *State) isNormal() bool {
	return uint64(s.Start) <= algo.MaxInstant && uint64(s.Used)-1 < algo.MaxCount
}

// normal is s itself where s is one that a step returns, else the nearest that is.
func (s State) normal() State {
	if s.Used <= 0 {
		return State{}
	}
	s.Start = min(max(s.Start, 0), algo.MaxInstant)
	s.Used = min(s.Used, algo.MaxCount)
	return s
}
