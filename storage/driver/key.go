package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/sluice-go/sluice/storage"
)

// RuleKey is the key of a limiter's record, in parts. Different keys have different texts:
//
//	NAMESPACE:RULE:KIND:KEY          such as shop:login:gcra:alice
//	{GROUP}NAMESPACE:RULE:KIND:KEY   such as {tenant-7}shop:login:gcra:alice
//
// In each part, %, braces, control characters (U+0000 to U+001F, U+007F to U+009F) and invalid UTF-8 are written as %XX in upper
// case. So are colons, except in KEY.
//
// Each part before KEY takes at most 96 bytes, and KEY the rest of [storage.MaxKey]. A longer part is cut, and ends in %# and
// the SHA-256 of the whole part in hexadecimal. No other part contains %#.
type RuleKey struct {
	Group string // from Options.Group
	Rule  string // from [Rule]; if it is empty, a Key with three colons can look like a key of a rule
	Key   string // from Rule.Key
}

const (
	maxPart = 96                           // the longest text of a group, namespace, rule or kind
	cutMark = "%#"                         // follows what is left of a part that was cut
	cutSize = len(cutMark) + 2*sha256.Size // of the mark and the hash
	colons  = 3                            // in a rule
)

// Rule returns NAMESPACE:RULE:KIND:, with which the keys of a rule begin. kind is the compose.Kind of its policy.
func Rule(namespace, name, kind string) string {
	var dst []byte
	for _, part := range [colons]string{namespace, name, kind} {
		dst = append(appendPart(dst, part, true, maxPart), ':')
	}
	return string(dst)
}

func (k RuleKey) String() string { return string(k.Append(make([]byte, 0, 96))) }

// Append appends the text of the key.
func (k RuleKey) Append(dst []byte) []byte {
	start := len(dst)
	if k.Group != "" {
		dst = append(appendPart(append(dst, '{'), k.Group, true, maxPart), '}')
	}
	dst = append(dst, k.Rule...)
	return appendPart(dst, k.Key, false, storage.MaxKey-(len(dst)-start))
}

// escapedSize is the length of the text of an escaped byte.
const escapedSize = len("%XX")

// IsShort reports whether the text has all parts in full. Just below the limits, it may return false.
func (k *RuleKey) IsShort() bool {
	group, key := escapedSize*len(k.Group), escapedSize*len(k.Key)
	most := storage.MaxKey - len("{}") - group - len(k.Rule)
	for i := 0; key > most && i < len(k.Key); i++ {
		if c := k.Key[i]; c < utf8.RuneSelf && !isEscaped(rune(c), 1) {
			key -= escapedSize - 1
		}
	}
	return group <= maxPart && key <= most
}

// ParseKey returns the key with a text. If there is none, or a part was cut, ok is false, and only k.Rule has a meaning.
func ParseKey(text string) (k RuleKey, ok bool) {
	rest := text
	if grouped, ok := strings.CutPrefix(text, "{"); ok {
		k.Group, rest, _ = strings.Cut(grouped, "}")
		k.Group = unescape(k.Group)
	}
	if parts := strings.SplitN(rest, ":", colons+1); len(parts) > colons {
		k.Rule = rest[:len(rest)-len(parts[colons])]
	}
	k.Key = unescape(rest[len(k.Rule):])
	return k, k.String() == text
}

// appendPart appends the text of a part, which takes at most so many bytes.
func appendPart(dst []byte, part string, escapeColon bool, most int) []byte {
	if isPlain(part, escapeColon) && len(part) <= most {
		return append(dst, part...)
	}
	start, cut := len(dst), len(dst)
	for i := 0; i < len(part) && len(dst)-start <= most; {
		r, size := utf8.DecodeRuneInString(part[i:])
		if char := part[i : i+size]; r == ':' && escapeColon || isEscaped(r, size) {
			dst = appendEscaped(dst, char)
		} else {
			dst = append(dst, char...)
		}
		if i += size; len(dst)-start <= most-cutSize {
			cut = len(dst)
		}
	}
	if len(dst)-start <= most {
		return dst
	}
	sum := sha256.Sum256([]byte(part))
	return hex.AppendEncode(append(dst[:cut], cutMark...), sum[:])
}

// isPlain reports whether a part has only ASCII, and none that is escaped. Most have, and their texts are made often.
func isPlain(part string, escapeColon bool) bool {
	for i := range len(part) {
		if c := part[i]; c >= utf8.RuneSelf || c == ':' && escapeColon || isEscaped(rune(c), 1) {
			return false
		}
	}
	return true
}

// isEscaped reports whether a character is escaped in all parts. The set never changes, because two versions of a program must
// make the same keys.
func isEscaped(r rune, size int) bool {
	return r < ' ' || r == '%' || r == '{' || r == '}' || 0x7f <= r && r < 0xa0 || r == utf8.RuneError && size == 1
}

func appendEscaped(dst []byte, char string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(char) {
		dst = append(dst, '%', digits[char[i]>>4], digits[char[i]&15])
	}
	return dst
}

// unescape returns the part with a text. The result has no meaning for a text that appendPart does not write.
func unescape(text string) string {
	part, _ := url.PathUnescape(text)
	return part
}
