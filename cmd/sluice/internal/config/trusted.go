package config

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/sluice-go/sluice/internal/errtext"
	"github.com/sluice-go/sluice/internal/trustedproxy"
)

// ParseTrusted parses the address or prefix of trusted proxies. It refuses a prefix that
// covers all addresses.
func ParseTrusted(s string) (netip.Prefix, error) {
	p, err := parsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("%s is not an address or prefix; want one such as 10.0.0.0/24 or 192.0.2.1", errtext.Quote(s))
	}
	if p != p.Masked() {
		return p, fmt.Errorf("%s has bits after the prefix; want %v, or %v for one machine", errtext.Quote(s), p.Masked(), p.Addr())
	}
	if p.Bits() == 0 {
		return p, fmt.Errorf("%s covers all addresses, so any client could forge its address; want the addresses of your proxies", errtext.Quote(s))
	}
	return p, nil
}

// parsePrefix converts IPv4-mapped IPv6 prefixes to IPv4, because such a prefix of 96 bits
// covers all addresses too.
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
