package tokenbucket

import (
	"encoding/binary"
	"slices"

	"github.com/sluice-go/sluice/algo"
)

// State is what one key has used. The zero State is a key never seen, and so is
// every State with nothing used.
type State struct {
	Used int64 // tokens missing from the bucket, as of At; 2^62 at most
	At   int64 // the last step that paid, ns since the Unix epoch
	Part int64 // of the next refill, what had accrued by At: Part/Limit.Period of it
}

const (
	tag     = 't'
	version = 1
	header  = 10 // tag, version and At
	longest = header + 2*binary.MaxVarintLen64
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
	n := len(dst)
	dst = slices.Grow(dst, longest)
	b := dst[n : n+longest]
	b[0], b[1] = tag, version
	binary.BigEndian.PutUint64(b[2:], uint64(s.At))
	size := header + binary.PutUvarint(b[header:], uint64(s.Part))
	size += binary.PutUvarint(b[size:], uint64(s.Used))
	return dst[:n+size]
}

// ParseState decodes what AppendState wrote; no bytes are the zero State. It
// returns [algo.ErrState] or [algo.ErrStateVersion] for anything else.
func ParseState(b []byte) (s State, err error) {
	if len(b) == 0 {
		return s, nil
	}
	if err := s.parse(b); err != nil {
		return State{}, err
	}
	return s, nil
}

func (s *State) parse(b []byte) error {
	if len(b) < 2 || b[0] != tag || b[1] < version {
		return algo.ErrState
	}
	if b[1] > version {
		return algo.ErrStateVersion
	}
	if len(b) < header {
		return algo.ErrState
	}
	part, n := uvarint(b[header:])
	used, m := uvarint(b[header+n:])
	s.Used, s.At, s.Part = int64(used), int64(binary.BigEndian.Uint64(b[2:])), int64(part)
	if n == 0 || m == 0 || header+n+m != len(b) || !s.isNormal() {
		return algo.ErrState
	}
	return nil
}

// uvarint is [binary.Uvarint], but takes only the shortest form of a number: of
// any other, and of none, it reads no bytes.
func uvarint(b []byte) (v uint64, n int) {
	v, n = binary.Uvarint(b)
	if n < 0 || n > 1 && b[n-1] == 0 {
		return 0, 0
	}
	return v, n
}

// isNormal reports whether s is one that a step returns after a payment.
func (s *State) isNormal() bool {
	return uint64(s.Used)-1 < algo.MaxCount && uint64(s.At) <= algo.MaxInstant && s.Part >= 0
}

// normal is s itself where s is one that a step returns, else the nearest that is.
func (s State) normal() State {
	if s.Used <= 0 {
		return State{}
	}
	s.Used = min(s.Used, algo.MaxCount)
	s.At = min(max(s.At, 0), algo.MaxInstant)
	s.Part = max(s.Part, 0)
	return s
}
