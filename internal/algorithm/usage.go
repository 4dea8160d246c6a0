package algorithm

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Usage is the state of gcra and tokenbucket: how many units are in use at an instant. It is normal
// if At is within [0, algo.MaxInstant], Used within [0, algo.MaxCount] and Part within [0, Period).
//
// Package gcra documents the encoding. That of tokenbucket differs only in the tag. Each state has
// exactly one encoding.
type Usage struct {
	At     int64 // ns since the Unix epoch
	Used   int64 // whole units
	Part   int64 // the rest: Part/Period of a unit
	Period time.Duration
}

// IsNormal reports whether s is normal and has that period, which must be at least 1.
func (s Usage) IsNormal(period time.Duration) bool {
	return s.Period == period && uint64(s.Part) < uint64(period) &&
		uint64(s.Used) <= algo.MaxCount && uint64(s.At) <= algo.MaxInstant
}

// Normalized returns the normal state that is nearest to s.
func (s Usage) Normalized() Usage {
	period := max(s.Period, 1)
	return Usage{
		At:     min(max(s.At, 0), algo.MaxInstant),
		Used:   min(max(s.Used, 0), algo.MaxCount),
		Part:   min(max(s.Part, 0), int64(period)-1),
		Period: period,
	}
}

const usageHeader = 11 // the size of tag, version, widths and At

// Append appends the encoding of a normal state.
func (s Usage) Append(dst []byte, tag byte) []byte {
	used, period := width(s.Used), width(int64(s.Period))
	n := usageHeader + used + 2*period
	dst = slices.Grow(dst, n)
	b := dst[len(dst) : len(dst)+n]
	// Each field is written as eight bytes, the last field first. The field before it then
	// overwrites the leading zeros.
	binary.BigEndian.PutUint64(b[n-8:], uint64(s.Period))
	binary.BigEndian.PutUint64(b[n-period-8:], uint64(s.Part))
	binary.BigEndian.PutUint64(b[usageHeader+used-8:], uint64(s.Used))
	binary.BigEndian.PutUint64(b[usageHeader-8:], uint64(s.At))
	b[0], b[1], b[2] = tag, Version, byte(used<<4|period)
	return dst[:len(dst)+n]
}

// ParseUsage decodes the bytes that Append wrote with this tag. Empty bytes are the zero Usage. For
// any other bytes it returns [algo.ErrState] or [algo.ErrStateVersion].
func ParseUsage(b []byte, tag byte) (s Usage, err error) {
	if len(b) <= usageHeader || b[0] != tag || b[1] != Version {
		return s, HeaderError(b, tag)
	}
	used, period, n := int(b[2]>>4), int(b[2]&15), len(b)
	if n != usageHeader+used+2*period {
		return s, algo.ErrState
	}
	s.At = lastBytes(b[:usageHeader], 8)
	s.Used = lastBytes(b[:usageHeader+used], used)
	s.Part = lastBytes(b[:n-period], period)
	s.Period = time.Duration(lastBytes(b, period))
	shortest := width(s.Used) == used && width(int64(s.Period)) == period
	if !shortest || s.Period < 1 || !s.IsNormal(s.Period) {
		return Usage{}, algo.ErrState
	}
	return s, nil
}

// width returns how many bytes x needs.
func width(x int64) int { return (bits.Len64(uint64(x)) + 7) / 8 }

// lastBytes returns the number in the last n bytes of b. b has at least 8 bytes.
func lastBytes(b []byte, n int) int64 {
	return int64(binary.BigEndian.Uint64(b[len(b)-8:]) & (1<<(8*n) - 1))
}
