// Package trustedproxy decides whether an address is that of a trusted proxy. The middleware, the
// server and the replay all use it, so that they agree.
package trustedproxy

import (
	"net/netip"
	"slices"
)

// Unmap returns the IPv4 prefix for a prefix of IPv4-mapped IPv6 addresses, such as
// ::ffff:10.0.0.0/104. It returns all other prefixes unchanged.
func Unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// Contains reports whether one of the trusted prefixes contains addr. The prefixes must be results
// of [Unmap]. An IPv4-mapped IPv6 address counts as an IPv4 address, so no prefix of IPv6 contains
// it. Zones are ignored.
func Contains(trusted []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}
