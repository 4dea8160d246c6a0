package driver

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// KeyGroup returns the group of a key that [AppendKey] made. A group of more than 128 bytes is
// returned as its SHA-256. KeyGroup returns "" if the key has no group. For a key that AppendKey
// did not make, it returns "" or some part of the key.
func KeyGroup(key string) string {
	if key == "" || key[0] != keyPlain && key[0] != keyHashed {
		return ""
	}
	group, _, _ := cutPart(key[1:])
	return group
}

// RuleOfKey returns the encoded parts of a key between its group and its last part. They identify
// the rule of the key. A bounded store must not evict keys of one rule to make room for another.
// For a key that [AppendKey] did not make, it returns "".
func RuleOfKey(key string) string {
	prefix, _ := CutKey(key)
	if prefix == "" {
		return ""
	}
	_, rule, _ := cutPart(prefix[1:])
	return rule
}

// CutKey splits a key of [AppendKey] into its last part and the prefix before it. last does not
// contain the encoded length. If AppendKey shortened the key, last is the hash. The keys of one rule
// differ only in last, so a store that hashes keys can hash the prefix once.
//
// For a key that AppendKey did not make, CutKey returns an empty prefix and the whole key.
// Different keys never have the same prefix and last.
func CutKey(key string) (prefix, last string) {
	if key == "" {
		return "", key
	}
	switch key[0] {
	case keyPlain:
		return cutPlainKey(key)
	case keyHashed:
		if _, rest, ok := cutPart(key[1:]); ok && len(rest) >= sha256.Size {
			end := len(key) - sha256.Size
			return key[:end], key[end:]
		}
	}
	return "", key
}

func cutPlainKey(key string) (prefix, last string) {
	for rest := key[1:]; ; {
		part, after, ok := cutPart(rest)
		switch {
		case !ok:
			return "", key
		case after == "":
			return key[:len(key)-len(rest)], part
		}
		rest = after
	}
}

// cutPart reads one part with its length. It refuses a length that is encoded in more bytes than
// needed, because then different keys would have the same parts.
func cutPart(s string) (part, rest string, ok bool) {
	var head [binary.MaxVarintLen64]byte
	n, size := binary.Uvarint(head[:copy(head[:], s)])
	shortest := max(1, (bits.Len64(n)+6)/7)
	if size != shortest || n > uint64(len(s)-size) {
		return "", "", false
	}
	return s[size:][:n], s[size:][n:], true
}
