package httplimit

import (
	"net/netip"
	"regexp"
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

// forwardedPair is a pair of an element. Empty pairs may be in front of it. Its value is a quoted string, or a token that may also
// have the bytes ":[]", because many proxies do not quote addresses.
var forwardedPair = regexp.MustCompile(`(?s)^;*([\w!#$%&'*+.^\x60|~-]+)=(?:"((?:[^"\\]|\\.)*)"|([\w!#$%&'*+.^\x60|~:[\]-]+))(?:;|$)`)

// parseForwarded reads the address in the parameter "for" of an element. It returns false if
// the element is malformed or does not have exactly one such address. Escapes stay in the value, because no
// address has any.
func parseForwarded(element string) (addr netip.Addr, ok bool) {
	for element = strings.TrimRight(element, ";"); element != ""; {
		pair := forwardedPair.FindStringSubmatch(element)
		if pair == nil {
			return netip.Addr{}, false
		}
		element = element[len(pair[0]):]
		if !strings.EqualFold(pair[1], "for") {
			continue
		}
		if ok { // for the second time
			return netip.Addr{}, false
		}
		if addr, ok = parseHop(pair[2] + pair[3]); !ok {
			return netip.Addr{}, false
		}
	}
	return addr, ok
}
