package policy

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/sluice-go/sluice/algo"
)

// Usage is the state of gcra and tokenbucket: the weight of the units in use at an instant. It is normal if At is
// within [0, algo.MaxInstant], Level within [1, algo.MaxLevel] and Unit within [1, algo.MaxLevel].
//
// Version 1 of the encoding takes 25 bytes, big endian. No units in use are empty bytes. tokenbucket has the tag 't'.
//
//	'g' 1
//	7 bytes: At, at most 2^52-1
//	8 bytes: Level, from 1 to 2^52-1
//	8 bytes: Unit, from 1 to 2^52-1
type Usage struct {
	At    int64 // us since the Unix epoch
	Level int64 // the units in use times Unit
	Unit  int64 // the weight of a unit
}

// usageSize is the size of an encoded Usage.
const usageSize = 25

// Append appends the encoding of a Usage that is normal or zero.
func (u Usage) Append(dst []byte, tag byte) []byte {
	if u.Level == 0 {
		return dst
	}
	dst = slices.Grow(dst, usageSize)
	b := dst[len(dst) : len(dst)+usageSize]
	binary.BigEndian.PutUint64(b[1:], uint64(u.At)) // its first byte is 0
	b[0], b[1] = tag, Version
	binary.BigEndian.PutUint64(b[9:], uint64(u.Level))
	binary.BigEndian.PutUint64(b[17:], uint64(u.Unit))
	return dst[:len(dst)+usageSize]
}

// ParseUsage decodes the bytes that Append wrote with this tag. Empty bytes are the zero Usage. It refuses any
// other bytes with [algo.ErrState] or [algo.ErrStateVersion].
func ParseUsage(b []byte, tag byte) (u Usage, err error) {
	if len(b) != usageSize || b[0] != tag || b[1] != Version {
		return u, HeaderError(b, tag)
	}
	u.At = int64(binary.BigEndian.Uint64(b[1:]) & (1<<56 - 1))
	u.Level = int64(binary.BigEndian.Uint64(b[9:]))
	u.Unit = int64(binary.BigEndian.Uint64(b[17:]))
	if u.Level == 0 || u != u.Normalized() {
		return Usage{}, algo.ErrState
	}
	return u, nil
}

// Normalized returns the normal Usage that is nearest to u, or the zero Usage if no units are in use.
func (u Usage) Normalized() Usage {
	if u.Level <= 0 {
		return Usage{}
	}
	return Usage{
		At:    min(max(u.At, 0), algo.MaxInstant),
		Level: min(u.Level, algo.MaxLevel),
		Unit:  min(max(u.Unit, 1), algo.MaxLevel),
	}
}

// IsDrained reports whether times*drain is at least the level. No argument may be negative.
func IsDrained(level, times, drain int64) bool {
	high, weight := bits.Mul64(uint64(times), uint64(drain))
	return high > 0 || weight >= uint64(level)
}

// LevelFor returns the level of the same units with another weight, at most max. A part of a unit counts as a whole
// unit. u must be normal or zero.
func (u Usage) LevelFor(unit, max int64) int64 {
	if u.Unit == unit || u.Level == 0 {
		return min(u.Level, max)
	}
	units := (u.Level-1)/u.Unit + 1
	return min(units, max/unit) * unit
}
