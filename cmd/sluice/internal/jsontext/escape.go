// Package jsontext reads escapes in JSON strings.
package jsontext

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape reads the escape that text begins with. It returns the character and the length
// of the escape, which is 0 if the escape is not valid. A surrogate pair is one character.
// For a lone surrogate it returns the surrogate, which package utf8 encodes as U+FFFD.
func Escape(text string) (r rune, n int) {
	if len(text) < 2 || text[0] != '\\' {
		return 0, 0
	}
	switch c := text[1]; c {
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
	r, ok := unicodeEscape(text)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		low, _ := unicodeEscape(text[6:])
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return r, 6
}

// unicodeEscape reads \uXXXX.
func unicodeEscape(text string) (r rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(n), err == nil
}
