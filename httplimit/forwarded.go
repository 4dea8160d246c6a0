package httplimit

import (
	"net/netip"
	"strings"
)

// lastUnquotedComma returns the index of the last comma that is not in a quoted string, or -1.
// It reads from the right, also within quoted strings, because a client may have opened a quote
// to the left of the nearest proxy's element.
func lastUnquotedComma(list string) int {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch c := list[i]; {
		case c == '"' && (i-len(strings.TrimRight(list[:i], `\`)))%2 == 0: // no backslash escapes it
			quoted = !quoted
		case c == ',' && !quoted:
			return i
		}
	}
	return -1
}

// parseForwarded reads the address in the parameter "for" of an element. It returns false if
// the element is malformed or does not have exactly one such address.
func parseForwarded(element string) (addr netip.Addr, ok bool) {
	for element != "" {
		if element[0] == ';' { // pairs may be empty
			element = element[1:]
			continue
		}
		name, rest, hasValue := strings.Cut(element, "=")
		value, rest, valid := cutValue(rest)
		if element = rest; !hasValue || !valid || !isToken(name, "") {
			return netip.Addr{}, false
		}
		if !strings.EqualFold(name, "for") {
			continue
		}
		if ok { // for the second time
			return netip.Addr{}, false
		}
		if addr, ok = parseHop(value); !ok {
			return netip.Addr{}, false
		}
	}
	return addr, ok
}

// cutValue splits off a token or a quoted string and reports whether it is valid. Escapes stay
// in the value, because no address has any.
func cutValue(text string) (value, rest string, valid bool) {
	quoted, found := strings.CutPrefix(text, `"`)
	if !found {
		value, rest, _ = strings.Cut(text, ";")
		return value, rest, isToken(value, ":[]") // many proxies do not quote addresses
	}
	for i := 0; i < len(quoted); i++ {
		switch quoted[i] {
		case '\\':
			i++
		case '"':
			value, rest = quoted[:i], quoted[i+1:]
			return value, rest, rest == "" || rest[0] == ';'
		}
	}
	return "", "", false
}

// isToken reports whether text is a token of RFC 9110 that may also have the other bytes.
func isToken(text, others string) bool {
	for i := range len(text) {
		c := text[i]
		alphanumeric := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !alphanumeric && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return text != ""
}
