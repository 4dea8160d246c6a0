package gcra

import (
	"encoding/binary"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// State is what one key has used. The zero State is a key never seen.
type State struct {
	TAT   int64      // theoretical arrival time, whole ns since the Unix epoch
	Frac  int64      // and Frac/Limit.Count of a nanosecond
	At    int64      // the last step that paid, ns since the Unix epoch
	Limit algo.Limit // the limit that TAT was computed under
}

const (
	tag     = 'g'
	version = 1
)

// AppendState appends the encoding of s to dst. A State that no step returns is
// encoded as the nearest one that could be.
func AppendState(dst []byte, s State) []byte {
	s = s.normal()
	return s.append(dst)
}

func (s *State) append(dst []byte) []byte {
	dst = append(dst, tag, version)
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.At))
	dst = binary.AppendUvarint(dst, uint64(s.TAT-s.At))
	dst = binary.AppendUvarint(dst, uint64(s.Frac))
	dst = binary.AppendUvarint(dst, uint64(s.Limit.Count))
	return binary.AppendUvarint(dst, uint64(s.Limit.Period))
}

// ParseState decodes what AppendState wrote; no bytes are the zero State. It
// returns [algo.ErrState] or [algo.ErrStateVersion] for anything else.
func ParseState(b []byte) (State, error) {
	if len(b) == 0 {
		return State{}, nil
	}
	if b[0] != tag || len(b) < 2 {
		return State{}, algo.ErrState
	}
	if b[1] > version {
		return State{}, algo.ErrStateVersion
	}
	if b[1] != version || len(b) < 10 {
		return State{}, algo.ErrState
	}
	s, b := State{At: int64(binary.BigEndian.Uint64(b[2:]))}, b[10:]
	var backlog uint64
	ok := true
	uvarint := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || n > 1 && b[n-1] == 0 { // only the shortest form is ours
			ok = false
			return 0
		}
		b = b[n:]
		return v
	}
	backlog = uvarint()
	s.Frac = int64(uvarint())
	s.Limit.Count = int64(uvarint())
	s.Limit.Period = time.Duration(uvarint())
	s.TAT = s.At + int64(backlog)
	if !ok || len(b) != 0 || s.Limit.Count < 1 || s.Limit.Count > algo.MaxCount || s.Limit.Period < 1 || !s.isNormal() {
		return State{}, algo.ErrState
	}
	return s, nil
}

// isNormal reports whether s, whose limit is valid, is one that a step returns.
func (s *State) isNormal() bool {
	return uint64(s.Frac) < uint64(s.Limit.Count) && uint64(s.At) <= algo.MaxInstant && s.At <= s.TAT
}

// normal is s itself where s is one that a step returns, else the nearest that
// is. A State without a usable limit has no meaning and counts as never seen.
func (s State) normal() State {
	if s.Limit.Validate() != nil {
		return State{}
	}
	s.TAT = max(s.TAT, 0)
	s.Frac = min(max(s.Frac, 0), s.Limit.Count-1)
	s.At = min(max(s.At, 0), s.TAT, algo.MaxInstant)
	return s
}
