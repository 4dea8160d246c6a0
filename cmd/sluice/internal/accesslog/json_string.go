package accesslog

import (
	"bytes"
	"unicode/utf8"

	"github.com/sluice-go/sluice/cmd/sluice/internal/jsontext"
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
		_, n := jsontext.Escape(s.text[s.next:])
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
		r, n := jsontext.Escape(text[i:])
		dst = utf8.AppendRune(append(dst, text[:i]...), r)
		text = text[i+n:]
	}
}
