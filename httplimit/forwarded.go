package httplimit

import (
	"net/netip"
	"strings"

	"github.com/sluice-go/sluice/internal/structured"
)

// cutForwarded splits off the last element of a list. It reads from the right, also within
// quoted strings, because a client may have opened a quote to the left of the nearest
// proxy's element.
func cutForwarded(list string) (rest, last string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch c := list[i]; {
		case c == '"' && !escaped(list[:i]):
			quoted = !quoted
		case c == ',' && !quoted:
			return list[:i], list[i+1:], true
		}
	}
	return "", list, false
}

// escaped reports whether a backslash at the end of text escapes the next byte.
func escaped(text string) bool {
	return (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1
}

// parseForwarded reads the address in the parameter "for" of an element. It returns false if
// the element is malformed or does not have exactly one such address.
func parseForwarded(element string) (addr netip.Addr, ok bool) {
	for element != "" {
		if element[0] == ';' { // pairs may be empty
			element = element[1:]
			continue
		}
		var name, value string
		name, value, element = cutPair(element)
		switch {
		case name == "" || ok && strings.EqualFold(name, "for"):
			return netip.Addr{}, false
		case !strings.EqualFold(name, "for"):
			continue
		}
		if addr, ok = parseHop(value); !ok {
			return netip.Addr{}, false
		}
	}
	return addr, ok
}

// cutPair splits off the first pair of an element. The rest is empty or starts with a
// semicolon. The name is empty if there is no valid pair.
func cutPair(element string) (name, value, rest string) {
	name, rest, found := strings.Cut(element, "=")
	if !found || !isToken(name) {
		return "", "", ""
	}
	if strings.HasPrefix(rest, `"`) {
		value, rest, found = cutQuoted(rest[1:])
	} else {
		value, rest = cutUnquoted(rest)
		found = isToken(strings.Map(maskAddress, value))
	}
	if !found || rest != "" && rest[0] != ';' {
		return "", "", ""
	}
	return name, value, rest
}

// cutUnquoted splits off a value without quotes.
func cutUnquoted(text string) (value, rest string) {
	end := strings.IndexByte(text, ';')
	if end < 0 {
		return text, ""
	}
	return text[:end], text[end:]
}

// cutQuoted splits off a quoted string without its opening quote. Escapes stay in the value,
// because no address has any.
func cutQuoted(text string) (value, rest string, found bool) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[:i], text[i+1:], true
		}
	}
	return "", "", false
}

// maskAddress replaces the characters of addresses that tokens must not have, because many
// proxies do not quote addresses.
func maskAddress(r rune) rune {
	if r == ':' || r == '[' || r == ']' {
		return '-'
	}
	return r
}

// isToken reports whether text is a token of RFC 9110.
func isToken(text string) bool {
	for i := range len(text) {
		if !structured.IsTokenByte(text[i]) {
			return false
		}
	}
	return text != ""
}
