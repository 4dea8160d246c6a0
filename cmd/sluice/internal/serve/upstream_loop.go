package serve

import (
	"cmp"
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

// lookupTime limits the DNS lookup, which only serves to find a mistake.
const lookupTime = time.Second

// CheckUpstream returns an error if the upstream is the proxy itself, which listens on HOST:PORT.
// Each request would then loop until a limit or the system ends it. It returns nil for a name
// that cannot be resolved.
func CheckUpstream(upstream *url.URL, listen string) error {
	resolved, err := resolve(listen)
	if err != nil {
		return err
	}
	defaultPort := map[string]string{"http": "80", "https": "443"}[upstream.Scheme]
	if resolved.Port == 0 || strconv.Itoa(resolved.Port) != cmp.Or(upstream.Port(), defaultPort) {
		return nil
	}
	at := resolved.AddrPort().Addr().Unmap()
	if slices.ContainsFunc(addressesOf(upstream.Hostname()), func(a netip.Addr) bool { return leads(a.Unmap(), at) }) {
		return fmt.Errorf("%s is the address of --listen %s, so each request would return to the proxy; want the program behind the proxy, or another --listen", upstream.Redacted(), listen)
	}
	return nil
}

// leads reports whether connections to a reach a listener on at. An unspecified at means all
// addresses of this machine.
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

// addressesOf returns the addresses of a host, as far as they are known.
func addressesOf(host string) []netip.Addr {
	host = strings.TrimSuffix(host, ".") // of a fully qualified name
	if addr, _ := netip.ParseAddr(host); addr.IsUnspecified() || strings.EqualFold(host, "localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host) // an IP address is returned as it is
	return found
}
