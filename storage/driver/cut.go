package driver

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// CutKey splits a key that [AppendKey] made into its prefix, which is all that precedes
// the last part, and the last part itself, without its length. The keys of one rule
// differ only in their last parts, so a store that hashes keys can hash the prefix
// once. The last part of a key that AppendKey had to shorten is its hash. Bytes that
// AppendKey did not make have no prefix. Different keys never split into the same two.
func CutKey(key string) (prefix, last string) {
	if key == "" {
		return "", key
	}
	switch key[0] {
	case keyPlain:
		return cutPlain(key)
	case keyHashed:
		if size, ok := partSizeOf(key[1:]); ok {
			if cut := len(key) - sha256.Size; cut >= 1+size.head+size.body {
				return key[:cut], key[cut:]
			}
		}
	}
	return "", key
}

func cutPlain(key string) (prefix, last string) {
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

// RuleOfKey returns the encoded parts of a key between its group and its last part. They
// name the rule that the key belongs to: a bounded store must not evict keys of one rule to
// make room for another. It is empty for bytes that [AppendKey] did not make.
func RuleOfKey(key string) string {
	prefix, _ := CutKey(key)
	if prefix == "" {
		return ""
	}
	size, ok := partSizeOf(prefix[1:])
	if !ok {
		return ""
	}
	return prefix[1+size.head+size.body:]
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
