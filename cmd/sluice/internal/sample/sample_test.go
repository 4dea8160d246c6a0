package sample_test

import (
	"bufio"
	"compress/gzip"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/sample"
)

func TestEveryLineIsFromADocumentationAddress(t *testing.T) {
	documentation := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"),
		netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	z, err := gzip.NewReader(sample.Open())
	require.NoError(t, err)
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		address, _, _ := strings.Cut(lines.Text(), " ")
		a, err := netip.ParseAddr(address)
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(documentation, func(p netip.Prefix) bool { return p.Contains(a) }), lines.Text())
	}
	require.NoError(t, lines.Err())
}
