package driver

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/sluice-go/sluice/storage"
)

// maxGroup is the longest group that stands in a key as it is.
const maxGroup = 128

// The first byte of a key says how the rest is to be read.
const (
	keyPlain  = 'k' // uvarint length and bytes of the group, then of each part
	keyHashed = 'h' // uvarint length and bytes of the group (or its SHA-256), the rule (or its SHA-256), then the SHA-256 of the plain key
)

// maxRule is the longest encoding of all parts between the group and the last one that
// stands in a hashed key as it is.
const maxRule = storage.MaxKey - 1 - (2 + maxGroup) - sha256.Size

// AppendKey appends the key of a record to dst: its group, and then its parts, for
// instance a namespace, the name of a rule and the user's key. Any bytes are legal
// in them, none at all included. Each is preceded by its length, so that no
// separator can be forged: different groups or parts never make the same key.
//
// If the key would be longer than [storage.MaxKey], its last part is replaced by a SHA-256 of
// the whole, and the first byte says so. The parts before the last stay readable, because a
// bounded store keeps the keys of different rules apart.
//
// The group is for stores that place records by it (Redis Cluster: keys that
// are swapped together must share a group); elsewhere, and when it is empty, it is
// one more part. See [KeyGroup].
func AppendKey(dst []byte, group string, parts ...string) []byte {
	start := len(dst)
	dst = appendPart(append(dst, keyPlain), group)
	rule := len(dst)
	last := rule
	for _, part := range parts {
		last = len(dst)
		dst = appendPart(dst, part)
	}
	if len(dst)-start <= storage.MaxKey && len(group) <= maxGroup {
		return dst
	}
	return appendHashed(dst[:start], group, string(dst[rule:last]), sha256.Sum256(dst[start:]))
}

func appendHashed(dst []byte, group, rule string, whole [sha256.Size]byte) []byte {
	dst = appendPart(append(dst, keyHashed), shorten(group, maxGroup))
	dst = append(dst, shorten(rule, maxRule)...)
	return append(dst, whole[:]...)
}

// shorten is s, or its SHA-256 if s is longer than most bytes.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return string(sum[:])
}

// Key is AppendKey as a string.
func Key(group string, parts ...string) string {
	return string(AppendKey(make([]byte, 0, 64), group, parts...))
}

func appendPart(dst []byte, part string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(part))), part...)
}

// KeyGroup is the group that [AppendKey] was given for key: the group itself up to
// 128 bytes, its SHA-256 beyond. It is empty for a key without a group. Of bytes that
// AppendKey did not make it is some part, mostly none.
func KeyGroup(key string) string {
	if key == "" || key[0] != keyPlain && key[0] != keyHashed {
		return ""
	}
	n, size := uvarint(key[1:])
	if size <= 0 || n > maxGroup || int(n) > len(key)-1-size {
		return ""
	}
	return key[1+size:][:n]
}

// uvarint is binary.Uvarint for a string; lengths of a group take two bytes at most.
func uvarint(s string) (uint64, int) {
	var head [2]byte
	return binary.Uvarint(head[:copy(head[:], s)])
}
