package policy

import (
	"encoding/binary"

	"github.com/sluice-go/sluice/algo"
)

// Count is the state of fixedwindow and calendar: the units used in the window of an instant. It is normal if At is within
// [0, algo.MaxInstant] and Used within [1, algo.MaxLevel].
//
// Version 1 of the encoding takes 17 bytes, big endian. No units in use are empty bytes. calendar has the tag 'c'.
//
//	'f' 1
//	7 bytes: At, at most 2^52-1
//	8 bytes: Used, from 1 to 2^52-1
type Count struct {
	At   int64 // us since the Unix epoch
	Used int64
}

// countSize is the size of an encoded Count.
const countSize = 17

// Append appends the encoding of a normal or zero Count.
func (c Count) Append(dst []byte, tag byte) []byte {
	if c.Used == 0 {
		return dst
	}
	dst = append(dst, make([]byte, countSize)...)
	b := dst[len(dst)-countSize:]
	binary.BigEndian.PutUint64(b[1:], uint64(c.At)) // its first byte is 0
	b[0], b[1] = tag, Version
	binary.BigEndian.PutUint64(b[9:], uint64(c.Used))
	return dst
}

// ParseCount decodes the bytes that Append wrote with this tag. Empty bytes are the zero Count. It refuses any
// other bytes with [algo.ErrState] or [algo.ErrStateVersion].
func ParseCount(b []byte, tag byte) (Count, error) {
	if len(b) != countSize || b[0] != tag || b[1] != Version {
		return Count{}, HeaderError(b, tag)
	}
	c := Count{
		At:   int64(binary.BigEndian.Uint64(b[1:]) & (1<<56 - 1)),
		Used: int64(binary.BigEndian.Uint64(b[9:])),
	}
	if c != c.Normalized() || c.Used == 0 {
		return Count{}, algo.ErrState
	}
	return c, nil
}

// Normalized returns the normal Count that is nearest to c, or the zero Count if no units are in use.
func (c Count) Normalized() Count {
	if c.Used <= 0 {
		return Count{}
	}
	return Count{At: min(max(c.At, 0), algo.MaxInstant), Used: min(c.Used, algo.MaxLevel)}
}
