package httplimit

import (
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/internal/trustedproxy"
)

// ClientIP finds the address of the client that a request came from. The zero
// value takes the peer of the connection, and believes no field.
//
// Behind proxies the peer is a proxy, and the client is in a field that the
// proxies write, but that clients may forge. So the field is read only if the peer
// is trusted, and from its right end, where the nearest proxy wrote:
//
//	peer 10.0.0.1, trusted; X-Forwarded-For: 6.6.6.6, 203.0.113.7, 10.0.0.2
//	                                           |           |          trusted, go on
//	                                           |           not trusted: the client
//	                                           never looked at
//
// The client is the first address that is not trusted, or the last that is if the
// field ends, or goes on with what is no address. Elements that are empty do not
// count. What a client adds to the left of its own address changes nothing.
type ClientIP struct {
	// Trusted are the addresses of your proxies. Each of them must append the
	// address of its own peer to the field, or replace the field by it.
	Trusted []netip.Prefix
	// TrustUnix trusts the peers of unix sockets, for a proxy that reaches the
	// server by one. Whatever process may connect to the socket can then pass for
	// any address, so its permissions should let in nobody but the proxy.
	TrustUnix bool
	// Forwarded is for proxies that write the field Forwarded (RFC 7239). It is
	// read in place of X-Forwarded-For, never beside it: a proxy that writes one
	// passes on the other as the client forged it.
	Forwarded bool
	// IPv6Bits is how much of an IPv6 address is the key, from 32 to 128. 0
	// means 64, for that is the least that a network gives to one customer, who
	// could come from another of its 2^64 addresses every time.
	IPv6Bits int
}

// Reasons why [ClientIP].Check finds that an address may not be the client's.
var (
	// ErrUntrustedPeer means that X-Forwarded-For or Forwarded came from a peer that is not
	// trusted, so it was not read. If the peer is your own proxy, its address is missing from
	// Trusted, and all of its clients share one key.
	ErrUntrustedPeer = errors.New("httplimit: a forwarding field came from a peer that is not trusted")
	// ErrForwarding means that a trusted proxy sent a field in which an element is no
	// address before the client was found, so the key is that of a proxy.
	ErrForwarding = errors.New("httplimit: a forwarding field of a trusted peer has an element that is no address")
)

// Check makes a function that returns [ErrUntrustedPeer] or [ErrForwarding] if the key of a
// request may not be that of its client, and else nil. Clients can cause the first by
// sending the field themselves, so count and sample it rather than log each.
func (c ClientIP) Check() (func(*http.Request) error, error) {
	valid, err := c.validated()
	if err != nil {
		return nil, err
	}
	return valid.check, nil
}

func (c *ClientIP) check(r *http.Request) error {
	addr, _, ok := parsePeer(r.RemoteAddr)
	unix := onUnix(r)
	switch {
	case unix && c.TrustUnix:
		addr = netip.Addr{}
	case unix, !ok, !c.trusts(addr):
		if len(r.Header["X-Forwarded-For"]) > 0 || len(r.Header["Forwarded"]) > 0 {
			return ErrUntrustedPeer
		}
		return nil
	}
	if _, ok := c.client(addr, r.Header); !ok {
		return ErrForwarding
	}
	return nil
}

// Key makes the key of a rule: an IPv4 address such as "192.0.2.1", or an IPv6
// prefix such as "2001:db8::/64". Zones are dropped, and IPv4 addresses mapped to
// IPv6 are IPv4 addresses, as are those that a translator writes as 64:ff9b::192.0.2.1
// (RFC 6052); but such a one is never trusted for what it stands for. The peers of unix
// sockets have no addresses, and may name themselves as they like: where no field tells
// more, they are all "unix".
func (c ClientIP) Key() (func(*http.Request) string, error) {
	valid, err := c.validated()
	if err != nil {
		return nil, err
	}
	return valid.key, nil
}

// validated returns a copy that is ready for use.
func (c ClientIP) validated() (*ClientIP, error) {
	if c.IPv6Bits == 0 {
		c.IPv6Bits = 64
	}
	if c.IPv6Bits < 32 || c.IPv6Bits > 128 {
		return nil, fmt.Errorf("httplimit: ClientIP.IPv6Bits must be from 32 to 128, or 0 for 64, got %d", c.IPv6Bits)
	}
	trusted := make([]netip.Prefix, 0, len(c.Trusted))
	for _, prefix := range c.Trusted {
		if !prefix.IsValid() {
			return nil, fmt.Errorf("httplimit: ClientIP.Trusted has an invalid prefix, %v", prefix)
		}
		trusted = append(trusted, trustedproxy.Unmap(prefix))
	}
	c.Trusted = trusted
	return &c, nil
}

func (c *ClientIP) key(r *http.Request) string {
	if onUnix(r) {
		return c.keyOnUnix(r.Header)
	}
	addr, text, ok := parsePeer(r.RemoteAddr)
	switch {
	case !ok:
		return r.RemoteAddr
	case len(c.Trusted) > 0 && c.trusts(addr):
		client, _ := c.client(addr, r.Header)
		return c.keyOf(client)
	case text != "":
		return text
	}
	return c.keyOf(addr)
}

// onUnix goes by the server's end of the connection. The peer's may be bound to a file
// named 10.0.0.1:80.
func onUnix(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && local.Network() == "unix"
}

func (c *ClientIP) keyOnUnix(h http.Header) string {
	if c.TrustUnix {
		if addr, _ := c.client(netip.Addr{}, h); addr.IsValid() {
			return c.keyOf(addr)
		}
	}
	return "unix"
}

func (c *ClientIP) keyOf(addr netip.Addr) string {
	if addr = translated(addr); addr.Is4() {
		return addr.String()
	}
	prefix, _ := addr.Prefix(c.IPv6Bits)
	return string(prefix.AppendTo(make([]byte, 0, 64)))
}

var wellKnown = netip.MustParsePrefix("64:ff9b::/96")

// translated is the IPv4 address that one with the prefix of translators stands for,
// and any other as it is: all of IPv4 has one /64 there. No network routes the prefix
// to another, so nobody but a translator of one's own answers for it. It stands for
// public addresses alone (RFC 6052, 3.1), and nobody is 10.0.0.1 or 127.0.0.1 by it.
func translated(addr netip.Addr) netip.Addr {
	if !wellKnown.Contains(addr) {
		return addr
	}
	whole := addr.As16()
	if inner := netip.AddrFrom4([4]byte(whole[12:])); inner.IsGlobalUnicast() && !inner.IsPrivate() {
		return inner
	}
	return addr
}

// parsePeer reads RemoteAddr. text is how it has an IPv4 address, which allocates
// nothing.
func parsePeer(remote string) (addr netip.Addr, text string, ok bool) {
	colon := strings.LastIndexByte(remote, ':')
	if colon > 0 && remote[0] != '[' {
		if addr, err := netip.ParseAddr(remote[:colon]); err == nil && addr.Is4() {
			return addr, remote[:colon], true
		}
	}
	addr, ok = parseHop(remote)
	return addr, "", ok
}

func (c *ClientIP) trusts(addr netip.Addr) bool { return trustedproxy.Contains(c.Trusted, addr) }

// client walks from the peer back to the client. ok is false if an element that is no
// address ended the walk.
func (c *ClientIP) client(addr netip.Addr, h http.Header) (_ netip.Addr, ok bool) {
	field, cut, read := "X-Forwarded-For", cutLast, parseHop
	if c.Forwarded {
		field, cut, read = "Forwarded", cutForwarded, parseForwarded
	}
	for hop := range fromTheRight(h[field], cut) {
		next, ok := read(hop)
		if !ok {
			return addr, false
		}
		if addr = next; !c.trusts(addr) {
			return addr, true
		}
	}
	return addr, true
}

// fromTheRight yields the elements of a list that may be in several lines, but for
// those that are empty, as RFC 9110, 5.6.1 has it.
func fromTheRight(lines []string, cut func(string) (rest, last string, more bool)) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, rest := range slices.Backward(lines) {
			for more := true; more; {
				var last string
				rest, last, more = cut(rest)
				if last = strings.Trim(last, " \t"); last != "" && !yield(last) {
					return
				}
			}
		}
	}
}

// cutLast cuts the last element off a list.
func cutLast(list string) (rest, last string, more bool) {
	comma := strings.LastIndexByte(list, ',')
	if comma < 0 {
		return "", list, false
	}
	return list[:comma], list[comma+1:], true
}

// parseHop reads an address, with or without a port, brackets and zone.
func parseHop(hop string) (netip.Addr, bool) {
	const longest = len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255%]:65535") + 32 // for a zone
	if len(hop) > longest {
		return netip.Addr{}, false
	}
	bracket := strings.IndexByte(hop, ']') // tells the forms apart: an error costs three allocations
	switch {
	case bracket < 0 && strings.Count(hop, ":") != 1:
		addr, err := netip.ParseAddr(hop)
		return plain(addr), err == nil
	case bracket != len(hop)-1:
		with, err := netip.ParseAddrPort(hop)
		return plain(with.Addr()), err == nil
	}
	addr, err := netip.ParseAddr(strings.TrimPrefix(hop[:bracket], "["))
	return plain(addr), err == nil && hop[0] == '[' && addr.Is6()
}

// plain is the address without what does not tell who it is.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
