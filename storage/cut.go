package storage

import (
	"encoding/binary"
	"math/bits"
)

// CutKey splits a key that [AppendKey] made in front of its last part: what
// precedes that part's length, and the part itself. Keys of one limit differ in
// their last parts only, so a store that hashes keys need hash what they share
// once. Other bytes, and keys that AppendKey had to shorten, have no prefix: all
// of them is the last part. Different keys never split into the same two.
func CutKey(key string) (prefix, last string) {
	if key == "" || key[0] != keyPlain {
		return "", key
	}
	start := 1
	for rest := key[1:]; ; {
		size, ok := partSizeOf(rest)
		if !ok {
			return "", key
		}
		part := rest[size.head : size.head+size.body]
		if rest = rest[size.head+size.body:]; rest == "" {
			return key[:start], part
		}
		start = len(key) - len(rest)
	}
}

type partSize struct{ head, body int }

// partSizeOf reads the length that precedes a part; false if AppendKey could
// not have written it there.
func partSizeOf(s string) (size partSize, ok bool) {
	var head [binary.MaxVarintLen64]byte
	n, k := binary.Uvarint(head[:copy(head[:], s)])
	shortest := max(1, (bits.Len64(n)+6)/7)
	if k != shortest || n > uint64(len(s)-k) {
		return partSize{}, false
	}
	return partSize{k, int(n)}, true
}
