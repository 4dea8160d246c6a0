package driver

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

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

// NoGroup is how a plain key without a group begins.
const NoGroup = "k\x00"

// RuleKey is the key of a record of a limiter, in parts.
type RuleKey struct {
	Group string // what Options.Group of the limiter returns
	Rule  string // the namespace and the name of the rule, from [EncodeRule]
	Key   string // what Rule.Key returns: the user's key
}

// EncodeRule returns the encoding of the namespace of a limiter and the name of a rule.
func EncodeRule(namespace, name string) string {
	return string(appendPart(appendPart(nil, namespace), name))
}

// String returns the key as text, as AppendKey appends it.
func (k *RuleKey) String() string { return string(k.Append(make([]byte, 0, 64))) }

// Append appends the key as text to dst, as AppendKey does.
func (k *RuleKey) Append(dst []byte) []byte {
	start := len(dst)
	dst = appendPart(append(dst, keyPlain), k.Group)
	rule := len(dst)
	dst = append(dst, k.Rule...)
	last := len(dst)
	return shorten(appendPart(dst, k.Key), start, rule, last, k.Group)
}

// IsPlain reports whether the text has all parts, because it is not too long.
func (k *RuleKey) IsPlain() bool {
	if len(k.Group) == 0 && len(k.Rule)+len(k.Key) < storage.MaxKey-8 {
		return true // whatever the size of the lengths
	}
	length := 1 + sizeOfLength(k.Group) + len(k.Group) + len(k.Rule) + sizeOfLength(k.Key) + len(k.Key)
	return length <= storage.MaxKey && len(k.Group) <= maxGroup
}

// sizeOfLength returns the size of the encoded length of a part.
func sizeOfLength(part string) int { return max(1, (bits.Len(uint(len(part)))+6)/7) }

// AppendKey appends the key of a record to dst. The key consists of a group and of parts. A limiter's
// parts are the namespace, the name of the rule and the user's key. The group and the parts may be
// empty and contain any bytes. The key contains the length of each part, so different groups or parts
// always make different keys.
//
// If the key would be longer than [storage.MaxKey], or the group is longer than 128 bytes,
// AppendKey replaces the last part by a SHA-256 of the whole key. The first byte of the key shows
// that. A group of more than 128 bytes, and very long parts before the last one, are also replaced
// by their SHA-256. So [KeyGroup] and [CutKey] still find the group and the rule of a key.
//
// Some stores place records by group: Redis Cluster can change keys together only if they have the
// same group. For other stores the group is an ordinary part.
func AppendKey(dst []byte, group string, parts ...string) []byte {
	start := len(dst)
	dst = appendPart(append(dst, keyPlain), group)
	rule := len(dst)
	last := rule
	for _, part := range parts {
		last = len(dst)
		dst = appendPart(dst, part)
	}
	return shorten(dst, start, rule, last, group)
}

// shorten replaces the key from start on by a shorter one if it is too long. Its rule is the text from rule to last.
func shorten(dst []byte, start, rule, last int, group string) []byte {
	if len(dst)-start <= storage.MaxKey && len(group) <= maxGroup {
		return dst
	}
	whole, shared := sha256.Sum256(dst[start:]), hashIfLonger(string(dst[rule:last]), maxRule)
	dst = appendPart(append(dst[:start], keyHashed), hashIfLonger(group, maxGroup))
	return append(append(dst, shared...), whole[:]...)
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

// KeyGroup returns the group of a key that [AppendKey] made, or the SHA-256 of a group of more than
// 128 bytes, or "" if the key has no group. For a key that AppendKey did not make, it returns "" or
// some part of the key.
func KeyGroup(key string) string {
	group, _, _ := cutGroup(key)
	return group
}

// CutKey splits a key of [AppendKey] into its last part, without its length, and the prefix before
// it. If AppendKey shortened the key, last is the hash. All keys of one group and rule have the
// same prefix, except those that AppendKey shortened: these have a second prefix in common. So a store
// that hashes keys can hash each prefix once.
//
// rule is the rest of prefix after the group. It identifies the rule, for example by a namespace
// and a name. A bounded store must not evict keys of one rule to make room for another.
//
// For a key that AppendKey did not make, CutKey returns an empty prefix and the whole key.
// Different keys never have the same prefix and last.
func CutKey(key string) (prefix, rule, last string) {
	_, rest, ok := cutGroup(key)
	start, end := len(key)-len(rest), len(key)-sha256.Size
	switch {
	case !ok || key[0] == keyHashed && end < start:
		return "", "", key
	case key[0] == keyHashed:
		return key[:end], key[start:end], key[end:]
	}
	for rest = key[1:]; rest != ""; { // a key without parts ends with its group
		end = len(key) - len(rest)
		if last, rest, ok = cutPart(rest); !ok {
			return "", "", key
		}
	}
	return key[:end], key[min(start, end):end], last
}

// cutGroup reads the group of a key. ok is false if AppendKey did not make the key.
func cutGroup(key string) (group, rest string, ok bool) {
	if key == "" || key[0] != keyPlain && key[0] != keyHashed {
		return "", "", false
	}
	return cutPart(key[1:])
}

// cutPart reads one part with its length. It refuses a length that is encoded in more bytes than
// needed, because then different keys would have the same parts.
func cutPart(s string) (part, rest string, ok bool) {
	var head [binary.MaxVarintLen64]byte
	n, size := binary.Uvarint(head[:copy(head[:], s)])
	if size != max(1, (bits.Len64(n)+6)/7) || n > uint64(len(s)-size) {
		return "", "", false
	}
	return s[size:][:n], s[size:][n:], true
}
