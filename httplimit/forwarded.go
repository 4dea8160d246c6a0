package httplimit

import (
	"net/netip"
	"strings"

	"github.com/sluice-go/sluice/internal/structured"
)

// cutForwarded cuts the last element off a list. It reads from the right, quoted
// strings too: to the left of what the nearest proxy wrote, a client may have
// opened a quote that swallows it.
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

// escaped reports whether a backslash holds for what follows text.
func escaped(text string) bool {
	return (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1
}

// parseForwarded reads the address that an element of Forwarded is for. An element
// in which anything is malformed, or that names no address, or two, has none.
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

// cutPair cuts the first pair off an element, and leaves nothing, or what
// begins with a semicolon. An empty name tells that there is no pair.
func cutPair(element string) (name, value, rest string) {
	name, rest, found := strings.Cut(element, "=")
	if !found || !isToken(name) {
		return "", "", ""
	}
	if strings.HasPrefix(rest, `"`) {
		value, rest, found = cutQuoted(rest[1:])
	} else {
		value, rest = cutUnquoted(rest)
		found = isToken(strings.Map(dropAddress, value))
	}
	if !found || rest != "" && rest[0] != ';' {
		return "", "", ""
	}
	return name, value, rest
}

// cutUnquoted cuts off a value without quotes.
func cutUnquoted(text string) (value, rest string) {
	end := strings.IndexByte(text, ';')
	if end < 0 {
		return text, ""
	}
	return text[:end], text[end:]
}

// cutQuoted cuts off a quoted string whose opening quote is gone. The value is as
// written, escapes and all: no address has any.
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

// dropAddress replaces what addresses have and tokens must not: many proxies do
// not quote them.
func dropAddress(r rune) rune {
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
