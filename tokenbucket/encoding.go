package tokenbucket

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
)

const (
	tag     = 't'
	version = 1
	header  = 11 // tag, version, widths and At
)

// AppendState appends the encoding of s to dst: nothing for a key never seen. A
// State that no step returns is encoded as the nearest one that could be.
func AppendState(dst []byte, s State) []byte {
	return s.normal().append(dst)
}

func (s State) append(dst []byte) []byte {
	if s.Used == 0 {
		return dst
	}
	used, period := width(s.Used), width(int64(s.Period))
	n := header + used + 2*period
	dst = slices.Grow(dst, n)
	b := dst[len(dst) : len(dst)+n]
	// Every field is written as eight bytes that end where it ends, the last one
	// first: the field before it then covers the zeros.
	binary.BigEndian.PutUint64(b[n-8:], uint64(s.Period))
	binary.BigEndian.PutUint64(b[n-period-8:], uint64(s.Part))
	binary.BigEndian.PutUint64(b[header+used-8:], uint64(s.Used))
	binary.BigEndian.PutUint64(b[header-8:], uint64(s.At))
	b[0], b[1], b[2] = tag, version, byte(used<<4|period)
	return dst[:len(dst)+n]
}

// ParseState decodes what AppendState wrote; no bytes are the zero State. It
// returns [algo.ErrState] or [algo.ErrStateVersion] for anything else.
func ParseState(b []byte) (s State, err error) {
	if len(b) <= header || b[0] != tag || b[1] != version {
		return s, refusal(b)
	}
	used, period, n := int(b[2]>>4), int(b[2]&15), len(b)
	if n != header+used+2*period {
		return s, algo.ErrState
	}
	s.At = field(b[:header], 8)
	s.Used = field(b[:header+used], used)
	s.Part = field(b[:n-period], period)
	s.Period = time.Duration(field(b, period))
	shortest := width(s.Used) == used && width(int64(s.Period)) == period
	if !shortest || s.Period < 1 || !s.isNormal(s.Period) {
		return State{}, algo.ErrState
	}
	return s, nil
}

// width is how many bytes x needs.
func width(x int64) int { return (bits.Len64(uint64(x)) + 7) / 8 }

// field is the number in the last bytes of b, which are that many.
func field(b []byte, width int) int64 {
	return int64(binary.BigEndian.Uint64(b[len(b)-8:]) & (1<<(8*width) - 1))
}

// refusal is the error for bytes that are no state of this version: nil for none.
func refusal(b []byte) error {
	switch {
	case len(b) == 0:
		return nil
	case len(b) > 1 && b[0] == tag && b[1] > version:
		return algo.ErrStateVersion
	}
	return algo.ErrState
}
