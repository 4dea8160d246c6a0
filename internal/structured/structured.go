// Package structured reads HTTP fields that are Lists of Strings, as RFC 9651 defines them.
// RateLimit and RateLimit-Policy are such fields.
package structured

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Item is a String in a List, with its parameters.
type Item struct {
	Name string // the String

	// Params has an int64 for a parameter that is an Integer, and a string for a String.
	// The value of every other type is true.
	Params map[string]any
}

// Integer returns the parameter with this key. It returns false if there is no such
// parameter or it is not an Integer.
func (i Item) Integer(key string) (int64, bool) {
	n, ok := i.Params[key].(int64)
	return n, ok
}

// ReadItems reads the lines of one field as a List. It returns the Strings and leaves out
// all other Items. It returns false if any part of the field is malformed, because RFC 9651
// requires that the whole field is ignored then.
func ReadItems(lines []string) (items []Item, ok bool) {
	rest := strings.Trim(strings.Join(lines, ","), " ")
	for rest != "" {
		var value any
		var params map[string]any
		if value, rest, ok = cutMember(rest); !ok {
			return nil, false
		}
		if params, rest, ok = cutParams(rest); !ok {
			return nil, false
		}
		if name, isString := value.(string); isString {
			items = append(items, Item{name, params})
		}
		if rest, ok = cutComma(rest); !ok {
			return nil, false
		}
	}
	return items, true
}

// cutComma cuts off the comma between two items. It returns false if no item follows a
// comma, or if other text follows the item.
func cutComma(text string) (rest string, ok bool) {
	text = strings.TrimLeft(text, " \t")
	if text == "" {
		return "", true
	}
	rest, found := strings.CutPrefix(text, ",")
	rest = strings.TrimLeft(rest, " \t")
	return rest, found && rest != ""
}

// cutMember cuts off a member of a list without its parameters. The value of an Inner List
// is true.
func cutMember(text string) (value any, rest string, ok bool) {
	if rest, ok = strings.CutPrefix(text, "("); !ok {
		return cutBare(text)
	}
	for {
		rest = strings.TrimLeft(rest, " ")
		if rest, ok = strings.CutPrefix(rest, ")"); ok {
			return true, rest, true
		}
		if _, rest, ok = cutBare(rest); !ok {
			return nil, "", false
		}
		if _, rest, ok = cutParams(rest); !ok || rest == "" || rest[0] != ' ' && rest[0] != ')' {
			return nil, "", false
		}
	}
}

// cutParams cuts off the parameters of a member. The map is nil if there are none.
func cutParams(text string) (params map[string]any, rest string, ok bool) {
	for strings.HasPrefix(text, ";") {
		text = strings.TrimLeft(text[1:], " ")
		end := span(text, isKeyByte)
		if end == 0 || text[0] != '*' && (text[0] < 'a' || text[0] > 'z') {
			return nil, "", false
		}
		key := text[:end]
		var value any = true
		if text = text[end:]; strings.HasPrefix(text, "=") {
			if value, text, ok = cutBare(text[1:]); !ok {
				return nil, "", false
			}
		}
		if params == nil {
			params = make(map[string]any)
		}
		params[key] = value
	}
	return params, text, true
}

// cutBare cuts off a Bare Item. Its value is true unless it is a String or an Integer.
func cutBare(text string) (value any, rest string, ok bool) {
	if text == "" {
		return nil, "", false
	}
	switch c := text[0]; {
	case c == '"':
		return cutString(text[1:])
	case c == '-' || isDigit(c):
		return cutNumber(text)
	case c == '@':
		value, rest, ok = cutNumber(text[1:])
		_, isInteger := value.(int64)
		return true, rest, ok && isInteger
	case c == ':':
		rest, ok = strings.CutPrefix(text[1+span(text[1:], isBase64Byte):], ":")
		return true, rest, ok
	case c == '?':
		ok = len(text) > 1 && (text[1] == '0' || text[1] == '1')
		return true, text[min(2, len(text)):], ok
	case c == '%':
		_, rest, ok = cutString(strings.TrimPrefix(text[1:], `"`))
		return true, rest, ok && len(text) > 1 && text[1] == '"'
	case c == '*' || 'a' <= c|0x20 && c|0x20 <= 'z':
		return true, text[span(text, isTokenByte):], true
	}
	return nil, "", false
}

// cutNumber cuts off an Integer or a Decimal. The value of a Decimal is true.
func cutNumber(text string) (value any, rest string, ok bool) {
	digits := strings.TrimPrefix(text, "-")
	end := span(digits, isDigit)
	n, err := strconv.ParseInt(digits[:end], 10, 64)
	if err != nil || end > 15 {
		return nil, "", false
	}
	if len(digits) < len(text) {
		n = -n
	}
	if rest = digits[end:]; !strings.HasPrefix(rest, ".") {
		return n, rest, true
	}
	fraction := span(rest[1:], isDigit)
	return true, rest[1+fraction:], end <= 12 && fraction >= 1 && fraction <= 3
}

// cutString cuts off a String without its opening quote.
func cutString(text string) (value any, rest string, ok bool) {
	var plain []byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			return string(plain), text[i+1:], true
		case c < ' ' || c > '~':
			return nil, "", false
		case c == '\\':
			if i++; i == len(text) || text[i] != '"' && text[i] != '\\' {
				return nil, "", false
			}
			c = text[i]
		}
		plain = append(plain, c)
	}
	return nil, "", false
}

// span returns how many bytes at the start of text are of a kind.
func span(text string, isKind func(byte) bool) int {
	rest := strings.TrimLeftFunc(text, func(r rune) bool { return r < utf8.RuneSelf && isKind(byte(r)) })
	return len(text) - len(rest)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isKeyByte(c byte) bool {
	return 'a' <= c && c <= 'z' || isDigit(c) || strings.IndexByte("_-.*", c) >= 0
}

func isBase64Byte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || isDigit(c) || strings.IndexByte("+/=", c) >= 0
}

func isTokenByte(c byte) bool { return c == ':' || c == '/' || IsTokenByte(c) }

// IsTokenByte reports whether a token of RFC 9110 can contain c. A Token of RFC 9651 can
// also contain a colon and a slash.
func IsTokenByte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
