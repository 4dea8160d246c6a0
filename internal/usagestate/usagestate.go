// Package usagestate encodes the states of gcra and tokenbucket. Both algorithms store how many
// units are in use at an instant. Their encodings differ only in the tag.
//
//	byte      0    1        2       3 .. 10
//	        | tag | version | widths | At | Used | Part | Period |
//
// All numbers are big-endian. At takes 8 bytes. The upper four bits of widths are the size of Used
// in bytes, and the lower four bits are the size of Part and of Period. Used and Period take as few
// bytes as possible, so each state has exactly one encoding.
package usagestate

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// State is how many units are in use at an instant. It is normal if At is within
// [0, algo.MaxInstant], Used within [0, algo.MaxCount] and Part within [0, Period).
type State struct {
	At     int64 // ns since the Unix epoch
	Used   int64 // whole units
	Part   int64 // the rest: Part/Period of a unit
	Period time.Duration
}

// IsNormal reports whether s is normal.
func (s *State) IsNormal() bool {
	return uint64(s.Part) < uint64(s.Period) && s.Period > 0 &&
		uint64(s.Used) <= algo.MaxCount && uint64(s.At) <= algo.MaxInstant
}

const (
	version = 1
	header  = 11 // the size of tag, version, widths and At
)

// Append appends the encoding of a normal state.
func (s State) Append(dst []byte, tag byte) []byte {
	used, period := width(s.Used), width(int64(s.Period))
	n := header + used + 2*period
	dst = slices.Grow(dst, n)
	b := dst[len(dst) : len(dst)+n]
	// Each field is written as eight bytes, the last field first. The field before it then
	// overwrites the leading zeros.
	binary.BigEndian.PutUint64(b[n-8:], uint64(s.Period))
	binary.BigEndian.PutUint64(b[n-period-8:], uint64(s.Part))
	binary.BigEndian.PutUint64(b[header+used-8:], uint64(s.Used))
	binary.BigEndian.PutUint64(b[header-8:], uint64(s.At))
	b[0], b[1], b[2] = tag, version, byte(used<<4|period)
	return dst[:len(dst)+n]
}

// Parse decodes the bytes that Append wrote with this tag. Empty bytes are the zero State. Parse
// returns [algo.ErrState] or [algo.ErrStateVersion] for any other bytes.
func Parse(b []byte, tag byte) (s State, err error) {
	if len(b) <= header || b[0] != tag || b[1] != version {
		return s, parseError(b, tag)
	}
	used, period, n := int(b[2]>>4), int(b[2]&15), len(b)
	if n != header+used+2*period {
		return s, algo.ErrState
	}
	s.At = lastBytes(b[:header], 8)
	s.Used = lastBytes(b[:header+used], used)
	s.Part = lastBytes(b[:n-period], period)
	s.Period = time.Duration(lastBytes(b, period))
	shortest := width(s.Used) == used && width(int64(s.Period)) == period
	if !shortest || !s.IsNormal() {
		return State{}, algo.ErrState
	}
	return s, nil
}

// width returns how many bytes x needs.
func width(x int64) int { return (bits.Len64(uint64(x)) + 7) / 8 }

// lastBytes returns the number in the last n bytes of b. b has at least 8 bytes.
func lastBytes(b []byte, n int) int64 {
	return int64(binary.BigEndian.Uint64(b[len(b)-8:]) & (1<<(8*n) - 1))
}

// parseError returns the error for bytes that are no state of this version. It is nil for empty
// bytes.
func parseError(b []byte, tag byte) error {
	switch {
	case len(b) == 0:
		return nil
	case len(b) > 1 && b[0] == tag && b[1] > version:
		return algo.ErrStateVersion
	}
	return algo.ErrState
}
