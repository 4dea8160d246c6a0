package accesslog

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// quoted reads a string. Its text is what stands between the marks.
func (s *scanner) quoted() (text []byte, escaped, ok bool) {
	if !s.mark('"') {
		return nil, false, false
	}
	for start := s.next; ; escaped = true {
		s.next += plainLen(s.text[s.next:])
		if s.take('"') {
			return s.text[start : s.next-1], escaped, true
		}
		_, n := escape(s.text[s.next:])
		if n == 0 {
			return nil, false, false
		}
		s.next += n
	}
}

// plainLen is how many bytes of a string stand for themselves, up to the first one
// that does not. Most are letters beyond the backslash, which one comparison tells.
func plainLen(b []byte) int {
	for i, c := range b {
		if c <= '\\' && (c == '"' || c == '\\' || c < ' ') {
			return i
		}
	}
	return len(b)
}

// unescape appends text without its escapes, which are known to be valid. Bytes that
// are not UTF-8 stay as they are.
func unescape(dst, text []byte) []byte {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return append(dst, text...)
		}
		r, n := escape(text[i:])
		dst = utf8.AppendRune(append(dst, text[:i]...), r)
		text = text[i+n:]
	}
}

// escape reads the escape that b begins with: the character it stands for, and its
// length, which is 0 if it is not valid.
func escape(b []byte) (r rune, n int) {
	if len(b) < 2 || b[0] != '\\' {
		return 0, 0
	}
	switch c := b[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	}
	return hexEscape(b)
}

// hexEscape reads \uXXXX, or the two of them that make a surrogate pair. Half a pair
// stands for U+FFFD.
func hexEscape(b []byte) (r rune, n int) {
	r, ok := hex4(b)
	switch {
	case !ok:
		return 0, 0
	case !utf16.IsSurrogate(r):
		return r, 6
	}
	low, _ := hex4(b[6:])
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return r, 6
	}
	return r, 12
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}
