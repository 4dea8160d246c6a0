// Package jsontext reads what strings of JSON escape.
package jsontext

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape reads the escape that b begins with: the character it stands for, and its
// length, which is 0 if it is not valid. Two halves of a surrogate pair are one; a half
// by itself is that half, which package utf8 encodes as U+FFFD.
func Escape(b []byte) (r rune, n int) {
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
	r, ok := unit(b)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		low, _ := unit(b[6:])
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return r, 6
}

// unit reads \uXXXX.
func unit(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}
