// These tests promise that an address is trusted only if a prefix of its own IP version contains it.
package trustedproxy

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestContains(t *testing.T) {
	for _, c := range []struct {
		prefix, addr string
		want         bool
	}{
		{"10.0.0.0/8", "10.1.2.3", true},
		{"10.9.9.9/8", "10.1.2.3", true},
		{"10.0.0.0/8", "11.0.0.0", false},
		{"10.0.0.0/8", "::ffff:10.1.2.3", true},
		{"10.0.0.0/8", "::10.1.2.3", false},
		{"::ffff:10.0.0.0/104", "10.1.2.3", true},
		{"::ffff:10.0.0.0/104", "::ffff:11.0.0.0", false},
		{"::ffff:0:0/95", "10.1.2.3", false},
		{"::/1", "::ffff:10.1.2.3", false},
		{"fe80::/10", "fe80::1%eth0", true},
		{"2001:db8::/32", "2001:db8::1", true},
		{"2001:db8::/32", "2001:db9::1", false},
	} {
		trusted := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), Unmap(netip.MustParsePrefix(c.prefix))}
		require.Equal(t, c.want, Contains(trusted, netip.MustParseAddr(c.addr)), c)
	}
	require.False(t, Contains(nil, netip.MustParseAddr("10.0.0.1")))
	require.False(t, Contains([]netip.Prefix{netip.MustParsePrefix("::/0")}, netip.Addr{}))
}
