// Package tally is the form in which gcra and tokenbucket store what a key has
// used. Only a tag, and what they mean by the numbers, sets them apart.
//
//	byte      0    1        2       3 .. 10
//	        | tag | version | widths | At | Used | Part | Period |
//
// All numbers are big-endian. At takes 8 bytes; Used takes as many as the upper
// half of widths says, Part and Period each as many as the lower half, and never
// more than they need: of one state there is one encoding.
package tally

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Tally is units in use at an instant. It is normal if At is within
// [0, algo.MaxInstant], Used within [0, algo.MaxCount] and Part within
// [0, Period).
type Tally struct {
	At     int64 // ns since the Unix epoch
	Used   int64
	Part   int64 // of one unit, in Period-ths
	Period time.Duration
}

// IsNormal reports whether t is normal.
func (t *Tally) IsNormal() bool {
	return uint64(t.Part) < uint64(t.Period) && t.Period > 0 &&
		uint64(t.Used) <= algo.MaxCount && uint64(t.At) <= algo.MaxInstant
}

const (
	version = 1
	header  = 11 // tag, version, widths and At
)

// Append appends the encoding of a normal t.
func (t Tally) Append(dst []byte, tag byte) []byte {
	used, period := width(t.Used), width(int64(t.Period))
	n := header + used + 2*period
	dst = slices.Grow(dst, n)
	b := dst[len(dst) : len(dst)+n]
	// Every field is written as eight bytes that end where it ends, the last one
	// first: the field before it then covers the zeros.
	binary.BigEndian.PutUint64(b[n-8:], uint64(t.Period))
	binary.BigEndian.PutUint64(b[n-period-8:], uint64(t.Part))
	binary.BigEndian.PutUint64(b[header+used-8:], uint64(t.Used))
	binary.BigEndian.PutUint64(b[header-8:], uint64(t.At))
	b[0], b[1], b[2] = tag, version, byte(used<<4|period)
	return dst[:len(dst)+n]
}

// Parse decodes what Append wrote with that tag; no bytes are the zero Tally. It
// returns [algo.ErrState] or [algo.ErrStateVersion] for anything else.
func Parse(b []byte, tag byte) (t Tally, err error) {
	if len(b) <= header || b[0] != tag || b[1] != version {
		return t, refusal(b, tag)
	}
	used, period, n := int(b[2]>>4), int(b[2]&15), len(b)
	if n != header+used+2*period {
		return t, algo.ErrState
	}
	t.At = field(b[:header], 8)
	t.Used = field(b[:header+used], used)
	t.Part = field(b[:n-period], period)
	t.Period = time.Duration(field(b, period))
	shortest := width(t.Used) == used && width(int64(t.Period)) == period
	if !shortest || !t.IsNormal() {
		return Tally{}, algo.ErrState
	}
	return t, nil
}

// width is how many bytes x needs.
func width(x int64) int { return (bits.Len64(uint64(x)) + 7) / 8 }

// field is the number in the last bytes of b, which are that many.
func field(b []byte, width int) int64 {
	return int64(binary.BigEndian.Uint64(b[len(b)-8:]) & (1<<(8*width) - 1))
}

// refusal is the error for bytes that are no tally of this version. No bytes at all
// are none to refuse.
func refusal(b []byte, tag byte) error {
	switch {
	case len(b) == 0:
		return nil
	case len(b) > 1 && b[0] == tag && b[1] > version:
		return algo.ErrStateVersion
	}
	return algo.ErrState
}
