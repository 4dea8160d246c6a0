// Package proxies has the one answer to whether an address is that of a trusted
// proxy: the key of a client, what an upstream is told and a replay must not differ.
package proxies

import "net/netip"

// Plain is the prefix of IPv4 addresses that one of mapped addresses stands for, and
// any other as it is.
func Plain(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// Trusts reports whether an address lies in one of the prefixes, which are plain. An
// IPv4 address that is mapped to IPv6 is an IPv4 address: it lies in no prefix of
// IPv6, however short. Zones do not count.
func Trusts(trusted []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, prefix := range trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}
