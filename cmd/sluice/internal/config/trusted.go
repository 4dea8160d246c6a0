package config

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/sluice-go/sluice/internal/trustedproxy"
)

// ParseTrusted reads the address or prefix of proxies that are believed when they say
// who the client is. Everybody is none.
func ParseTrusted(s string) (netip.Prefix, error) {
	p, err := parsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("%s is no address and no prefix; want one such as 10.0.0.0/24 or 192.0.2.1", quote(s))
	}
	if p != p.Masked() {
		return p, fmt.Errorf("%s is every address of %v; want that, or %v if it is one machine", quote(s), p.Masked(), p.Addr())
	}
	if p.Bits() == 0 {
		return p, fmt.Errorf("%s is everybody, who could all say that they are somebody else; want the addresses of your proxies", quote(s))
	}
	return p, nil
}

// parsePrefix reads a mapped IPv6 prefix as the IPv4 that it stands for: one of 96
// bits is everybody too.
func parsePrefix(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		p, err := netip.ParsePrefix(s)
		return trustedproxy.Unmap(p), err
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	addr = addr.WithZone("").Unmap()
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}
