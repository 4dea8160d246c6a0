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

// cutPair splits off the first pair of an element. The name is empty if there is no valid
// pair.
func cutPair(element string) (name, value, rest string) {
	name, rest, found := strings.Cut(element, "=")
	if !found || !isToken(name, "") {
		return "", "", ""
	}
	if quoted, ok := strings.CutPrefix(rest, `"`); ok {
		value, rest, found = cutQuoted(quoted)
		found = found && (rest == "" || rest[0] == ';')
	} else {
		value, rest, _ = strings.Cut(rest, ";")
		found = isToken(value, ":[]") // many proxies do not quote addresses
	}
	if !found {
		return "", "", ""
	}
	return name, value, rest
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

// isToken reports whether text is a token of RFC 9110 that may also have the other bytes.
func isToken(text, others string) bool {
	for i := range len(text) {
		if !structured.IsTokenByte(text[i]) && strings.IndexByte(others, text[i]) < 0 {
			return false
		}
	}
	return text != ""
}
