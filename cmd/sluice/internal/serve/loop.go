package serve

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lookupTime is how long a name may take to be looked up, only to find a mistake.
const lookupTime = time.Second

// CheckUpstream finds whether a proxy that listens at an address, HOST:PORT, would be
// its own upstream. Each request would then go round until a limit or the system ends
// it. Of a name that cannot be looked up nothing is said.
func CheckUpstream(upstream *url.URL, listen string) error {
	resolved, err := resolve(listen)
	if err != nil {
		return err
	}
	at := resolved.AddrPort()
	if at.Port() == 0 || at.Port() != portOf(upstream) {
		return nil
	}
	leadsHere := func(a netip.Addr) bool { return leads(a, at.Addr().Unmap()) }
	if slices.ContainsFunc(addressesOf(upstream.Hostname()), leadsHere) {
		return fmt.Errorf("%s is the address of --listen %s, so each request would return to the proxy; want the program behind the proxy, or another --listen", upstream.Redacted(), listen)
	}
	return nil
}

func portOf(u *url.URL) uint16 {
	port := u.Port()
	switch {
	case port == "" && u.Scheme == "https":
		return 443
	case port == "":
		return 80
	}
	n, _ := strconv.ParseUint(port, 10, 16) // 0, where nobody listens, if it is none
	return uint16(n)
}

// leads reports whether an address leads to who listens at another, or at none, which
// is all of this machine's.
func leads(a, at netip.Addr) bool {
	if at.IsValid() && !at.IsUnspecified() {
		return a == at
	}
	interfaces, _ := net.InterfaceAddrs()
	return a.IsLoopback() || slices.ContainsFunc(interfaces, func(i net.Addr) bool {
		prefix, err := netip.ParsePrefix(i.String())
		return err == nil && prefix.Addr().Unmap() == a
	})
}

// addressesOf are those at which a host is reached, as far as they can be told.
func addressesOf(host string) []netip.Addr {
	host = strings.TrimSuffix(host, ".") // of a name that is fully qualified
	addr, err := netip.ParseAddr(host)
	switch {
	case err == nil && addr.IsUnspecified(), strings.EqualFold(host, "localhost"):
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	case err == nil:
		return []netip.Addr{addr.Unmap()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found
}
