package sample_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/sample"
)

func TestEveryLineIsAnEntryFromADocumentationAddress(t *testing.T) {
	documentation := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"),
		netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	r := accesslog.NewReader(t.Context(), []accesslog.Input{accesslog.FromReader(sample.Name, sample.Open())},
		accesslog.Options{Reorder: accesslog.DefaultReorder})
	defer r.Close()
	for r.Next() {
		a, err := netip.ParseAddr(string(r.Entry().IP))
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(documentation, func(p netip.Prefix) bool { return p.Contains(a) }), a)
	}
	require.NoError(t, r.Err())
	stats := r.Stats()
	require.Zero(t, stats.Skipped)
	require.Zero(t, stats.Late)
	require.Positive(t, stats.Reordered)
}
