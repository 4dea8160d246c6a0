package driver

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/sluice-go/sluice/storage"
)

// maxGroup is the length of the longest group that a key contains unhashed.
const maxGroup = 128

// The first byte of a key is the format of the rest.
const (
	keyPlain  = 'k' // the group and each part, each preceded by its length as a uvarint
	keyHashed = 'h' // the group or its SHA-256, preceded by its length; the rule or its SHA-256; the SHA-256 of the plain key
)

// maxRule is the length of the longest rule that a hashed key contains unhashed. The rule is the
// encoding of all parts between the group and the last part.
const maxRule = storage.MaxKey - 1 - (2 + maxGroup) - sha256.Size

// AppendKey appends the key of a record to dst. The key consists of a group and parts, for
// example a namespace, the name of a rule and the user's key. They may contain any bytes and may
// be empty. The key contains the length of each part. So different groups or parts always make
// different keys, and a user cannot forge a separator.
//
// If the key would be longer than [storage.MaxKey], AppendKey replaces the last part by a SHA-256
// of the whole key. The first byte of the key shows that. The other parts stay readable, because
// a bounded store separates the keys of different rules.
//
// Some stores place records by group: Redis Cluster can change keys together only if they have the
// same group. For other stores the group is an ordinary part. See [KeyGroup].
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
	dst = appendPart(append(dst, keyHashed), hashIfLonger(group, maxGroup))
	dst = append(dst, hashIfLonger(rule, maxRule)...)
	return append(dst, whole[:]...)
}

func hashIfLonger(s string, most int) string {
	if len(s) <= most {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return string(sum[:])
}

// Key returns the key of [AppendKey] as a string.
func Key(group string, parts ...string) string {
	return string(AppendKey(make([]byte, 0, 64), group, parts...))
}

func appendPart(dst []byte, part string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(part))), part...)
}
