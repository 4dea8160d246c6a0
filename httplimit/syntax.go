package httplimit

import "strconv"

// maxInteger is the largest Integer of RFC 9651.
const maxInteger = 999_999_999_999_999

// appendInteger appends a non-negative Integer: debt is nothing left, and what is
// larger than an Integer can be is as large as it can be.
func appendInteger(text []byte, n int64) []byte {
	return strconv.AppendInt(text, min(max(n, 0), maxInteger), 10)
}

// appendName appends a rule's name as a String, with the number of a part, from 1,
// if part is not negative. A String is printable ASCII; other bytes are written as
// %xx.
func appendName(text []byte, name string, part int) []byte {
	text = append(text, '"')
	for i := range len(name) {
		switch c := name[i]; c {
		case '"', '\\':
			text = append(text, '\\', c)
		default:
			text = appendPrintable(text, c)
		}
	}
	return append(appendPart(text, part), '"')
}

func appendPrintable(text []byte, c byte) []byte {
	if ' ' <= c && c <= '~' {
		return append(text, c)
	}
	const digits = "0123456789abcdef"
	return append(text, '%', digits[c>>4], digits[c&15])
}

func appendPart(text []byte, part int) []byte {
	if part < 0 {
		return text
	}
	return strconv.AppendInt(append(text, '.'), int64(part)+1, 10)
}
