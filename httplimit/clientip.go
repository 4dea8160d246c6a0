package httplimit

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/internal/trustedproxy"
)

// ClientIP finds the address of the client that sent a request. The zero value takes the peer of the connection and reads no
// header field.
//
// Clients can forge the header field of a proxy. So ClientIP reads it only if the peer is trusted, and from the right, where
// the nearest proxy wrote:
//
//	peer 10.0.0.1, trusted; X-Forwarded-For: 6.6.6.6, 203.0.113.7, 10.0.0.2
//	                                           |           |          trusted, so go on
//	                                           |           not trusted: the client
//	                                           never read
//
// The client is the first address from the right that is not trusted, or the leftmost if all are trusted. If an element is no
// address, the client is the trusted address to its right. Without an address in the field, the client is the peer.
type ClientIP struct {
	// Trusted are the addresses of your proxies. Each proxy must append the address of its peer to the field, or replace the field
	// by it.
	Trusted []netip.Prefix
	// TrustUnix trusts the peers of unix sockets. Every process that can connect to the socket can then claim any address, so let
	// its permissions admit the proxy only.
	TrustUnix bool
	// Forwarded reads the field Forwarded (RFC 7239) instead of X-Forwarded-For. ClientIP never reads both, because a proxy that
	// writes one passes on the client's other.
	Forwarded bool
	// IPv6Bits is the length of the IPv6 prefix that is the key, from 32 to 128. 0 means 64, because most customers have a /64 or
	// more.
	IPv6Bits int
}

// The function that [ClientIP].Check returns has these errors.
var (
	// ErrUntrustedPeer means that the field was not read. If the peer is your own proxy, add it to Trusted, because now all its
	// clients share one key.
	ErrUntrustedPeer = errors.New("httplimit: a peer that is not trusted sent X-Forwarded-For or Forwarded")
	// ErrForwarding means that the key is the address of a proxy.
	ErrForwarding = errors.New("httplimit: a trusted peer sent X-Forwarded-For or Forwarded with an element that is no address")
	// ErrNoAddress means that the key is RemoteAddr as it is. Set RemoteAddr to the client's address before the limiter runs.
	ErrNoAddress = errors.New("httplimit: RemoteAddr of the request is no address")
)

// Check returns a function that returns [ErrUntrustedPeer], [ErrForwarding] or [ErrNoAddress] for requests whose key may not be
// the client's address. Any client can cause ErrUntrustedPeer, so sample its log lines.
func (c ClientIP) Check() (func(*http.Request) error, error) {
	if err := c.prepare(); err != nil {
		return nil, err
	}
	return func(r *http.Request) error {
		addr, trusted, err := c.find(r)
		switch {
		case !trusted && (len(r.Header["X-Forwarded-For"]) > 0 || len(r.Header["Forwarded"]) > 0):
			return ErrUntrustedPeer
		case !addr.IsValid() && !onUnix(r):
			return ErrNoAddress
		}
		return err
	}, nil
}

// Key returns a rule's Key: an IPv4 address such as "192.0.2.1", or an IPv6 prefix such as "2001:db8::/64". IPv4 addresses in
// IPv6, mapped or written by a NAT64 translator as 64:ff9b::192.0.2.1, have the key of the IPv4 address. But those of NAT64 are
// not trusted as such.
//
// The key of all peers of unix sockets is "unix", unless TrustUnix is set and the field has an address.
func (c ClientIP) Key() (func(*http.Request) string, error) {
	if err := c.prepare(); err != nil {
		return nil, err
	}
	return c.key, nil
}

// prepare checks the options of a copy, and sets the defaults.
func (c *ClientIP) prepare() error {
	c.IPv6Bits = cmp.Or(c.IPv6Bits, 64)
	if c.IPv6Bits < 32 || c.IPv6Bits > 128 {
		return fmt.Errorf("httplimit: ClientIP.IPv6Bits must be from 32 to 128, or 0 for 64, got %d", c.IPv6Bits)
	}
	c.Trusted = slices.Clone(c.Trusted)
	for i, prefix := range c.Trusted {
		if !prefix.IsValid() {
			return fmt.Errorf("httplimit: ClientIP.Trusted must not have an invalid prefix, got %v", prefix)
		}
		c.Trusted[i] = trustedproxy.Unmap(prefix)
	}
	return nil
}

func (c *ClientIP) key(r *http.Request) string {
	addr, _, _ := c.find(r)
	addr = translated(addr)
	switch {
	case addr.Is4():
		return addr.String()
	case addr.IsValid():
		return netip.PrefixFrom(addr, c.IPv6Bits).Masked().String()
	case onUnix(r):
		return "unix"
	}
	return r.RemoteAddr
}

// onUnix looks at the server's end of the connection, because the peer can bind its own end
// to a file named 10.0.0.1:80.
func onUnix(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && local.Network() == "unix"
}

// find returns the address of the client, which is not valid if there is none. trusted reports
// whether the peer is trusted, so that the field was read.
func (c *ClientIP) find(r *http.Request) (addr netip.Addr, trusted bool, err error) {
	unix := onUnix(r)
	if !unix {
		addr, _ = parseHop(r.RemoteAddr)
	}
	if unix && !c.TrustUnix || !unix && !c.trusts(addr) {
		return addr, false, nil
	}
	field, lastComma, read := "Forwarded", lastUnquotedComma, parseForwarded
	if !c.Forwarded {
		field, lastComma, read = "X-Forwarded-For", func(list string) int { return strings.LastIndexByte(list, ',') }, parseHop
	}
	for _, list := range slices.Backward(r.Header[field]) {
		for comma := len(list); comma >= 0; {
			list = list[:comma]
			comma = lastComma(list)
			hop := strings.Trim(list[comma+1:], " \t")
			if hop == "" {
				continue // RFC 9110, 5.6.1: a list can have empty elements
			}
			next, ok := read(hop)
			if !ok {
				return addr, true, ErrForwarding
			}
			if addr = next; !c.trusts(addr) {
				return addr, true, nil
			}
		}
	}
	return addr, true, nil
}

func (c *ClientIP) trusts(addr netip.Addr) bool { return trustedproxy.Contains(c.Trusted, addr) }

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// translated returns the IPv4 address in an address with the NAT64 prefix, and other
// addresses unchanged. Without this, all of IPv4 would share the key 64:ff9b::/64. Only the
// network's own translator can use this prefix, and not for private addresses (RFC 6052, 3.1).
func translated(addr netip.Addr) netip.Addr {
	if !nat64.Contains(addr) {
		return addr
	}
	whole := addr.As16()
	if inner := netip.AddrFrom4([4]byte(whole[12:])); inner.IsGlobalUnicast() && !inner.IsPrivate() {
		return inner
	}
	return addr
}

// parseHop reads an address, with or without a port, brackets and zone.
func parseHop(hop string) (netip.Addr, bool) {
	const longest = len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255%]:65535") + 32 // for a zone
	switch {
	case len(hop) > longest:
		return netip.Addr{}, false
	case strings.HasSuffix(hop, "]"):
		hop += ":0"
	case strings.Count(hop, ":") != 1 && !strings.Contains(hop, "]"):
		addr, err := netip.ParseAddr(hop)
		return plain(addr), err == nil
	}
	with, err := netip.ParseAddrPort(hop)
	return plain(with.Addr()), err == nil
}

// plain returns the address without its zone, and as IPv4 if it is IPv4-mapped.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
