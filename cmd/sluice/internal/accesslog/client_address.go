package accesslog

import (
	"bytes"
	"net/netip"
)

// parseClient reads the words before the time: [HOST[:PORT]] CLIENT [PROXY] [IDENT [USER]]. It returns the
// reason if it cannot. A second - in the place of the user is the identity of another client, if the
// words before it are not an address and the first -. Then the text before that client is unknown.
func parseClient(b []byte, e *Entry) (reason string) {
	client, rest := findClientWord(b, e)
	_, user, _ := bytes.Cut(rest, space)
	e.IP, e.User = peer(withoutPort(client)), dash(bytes.Trim(user, " "))
	switch {
	case len(client) == 0 || bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' || r == 0x7f }): // binary data may have a valid [time]
		return "no address before the time"
	case bytes.Contains(user, spacedDash) && !(isIP(client) && startsWithDash(rest)):
		return "unknown text before the client"
	}
	return ""
}

// findClientWord returns the word of the client, empty if there is none, and the text after the
// client and its proxy.
func findClientWord(b []byte, e *Entry) (client, behind []byte) {
	if first, rest, _ := bytes.Cut(b, space); isHost(first, rest) {
		e.Host = dash(withoutPort(first))
		b = rest
	}
	e.Forwarded, b = cutComma(b, bytes.LastIndexByte(listOf(b), ','))
	client, behind, _ = bytes.Cut(b, space)
	if startsWithAddressOrName(behind) && bytes.Count(behind, space) >= 2 {
		_, behind, _ = bytes.Cut(behind, space)
	}
	return client, behind
}

var space = []byte{' '}

// isHost reports whether the first word is the server's name and the client follows. A name with a
// port is the server's, because clients are logged without a port or as an address. Any other word
// is the client's, unless an address or a name follows. If two addresses without ports follow each
// other, the first is the client's and the second is its proxy's.
func isHost(first, rest []byte) bool {
	host, port := splitPort(first)
	if len(port) == 0 {
		return startsWithAddressOrName(rest) && len(first) > 0 && !isListed(first) && !isIP(host)
	}
	return len(host) > 0 && bytes.Count(rest, space) >= 2 && (startsWithAddressOrName(rest) || !isIP(host))
}

// startsWithAddressOrName reports whether the first word of b is an address, an element of a list, or a
// name before the - of an IDENT.
func startsWithAddressOrName(b []byte) bool {
	word, rest, _ := bytes.Cut(b, space)
	if len(word) == 0 || startsWithDash(b) {
		return false
	}
	if isListed(word) || isIP(word[bytes.LastIndexByte(word, ',')+1:]) {
		return true
	}
	return startsWithDash(rest) && len(rest) > len("- ")
}

// startsWithDash reports whether the first word of b is -.
func startsWithDash(b []byte) bool {
	return len(b) > 0 && b[0] == '-' && (len(b) == 1 || b[1] == ' ')
}

// cutComma cuts a list of addresses at its last comma. The server's own proxy wrote the last address;
// clients can forge the others, with spaces in them.
func cutComma(b []byte, comma int) (others, rest []byte) {
	if comma < 0 {
		return nil, b
	}
	return bytes.TrimRight(b[:comma], ", "), bytes.TrimLeft(b[comma+1:], " ")
}

// listOf returns the part of b that may be a list of addresses: the text before the first - between
// spaces, because later commas belong to user names. Without such a -, it returns the words that end
// in a comma and the next word.
func listOf(b []byte) []byte {
	if i := bytes.Index(b, spacedDash); i >= 0 {
		return b[:i]
	}
	if bytes.HasSuffix(b, spacedDash[:2]) {
		return b
	}
	word, behind, _ := bytes.Cut(b, space)
	for isListed(word) {
		word, behind, _ = bytes.Cut(bytes.TrimLeft(behind, " "), space)
	}
	return b[:len(b)-len(behind)]
}

var spacedDash = []byte(" - ")

// isListed reports whether the word is an element of a list, and not the last.
func isListed(word []byte) bool {
	return len(word) > 0 && word[len(word)-1] == ','
}

// peer returns the address of a client. A peer on a Unix socket has none: nginx logs unix: for it, and
// Go programs log @.
func peer(host []byte) []byte {
	if bytes.HasPrefix(host, []byte("unix:")) || len(host) == 1 && host[0] == '@' {
		return nil
	}
	return dash(host)
}

// isIP reports whether b has the form of an IP address, with or without a port. It accepts invalid
// IPv4 addresses such as 216.292.58.48, because logs contain some.
func isIP(b []byte) bool {
	host := withoutPort(b)
	if bytes.IndexByte(host, ':') >= 0 {
		_, err := netip.ParseAddr(string(host))
		return err == nil
	}
	groups := 0
	for group := range bytes.SplitSeq(host, []byte(".")) {
		if groups++; len(group) > 3 || !allDigits(group) {
			return false
		}
	}
	return groups == 4
}

// splitPort cuts HOST:PORT and [HOST]:PORT. A bare IPv6 address has no port.
func splitPort(b []byte) (host, port []byte) {
	host, port, found := bytes.Cut(b, []byte(":"))
	if len(b) > 0 && b[0] == '[' {
		var after []byte
		if host, after, found = bytes.Cut(b[1:], []byte("]")); found && len(after) == 0 {
			return host, nil
		}
		port, found = bytes.CutPrefix(after, []byte(":"))
	}
	if found && allDigits(port) {
		return host, port
	}
	return b, nil
}

func withoutPort(b []byte) (host []byte) {
	host, _ = splitPort(b)
	return host
}
