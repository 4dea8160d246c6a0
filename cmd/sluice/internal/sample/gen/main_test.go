package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/sample"
	"github.com/stretchr/testify/require"
)

func TestTheEmbeddedLogIsTheOneThatIsMade(t *testing.T) {
	z, err := gzip.NewReader(sample.Open())
	require.NoError(t, err)
	embedded, err := io.ReadAll(z)
	require.NoError(t, err)
	require.True(t, bytes.Equal(sampleLog(), embedded), "run go generate ./cmd/sluice/internal/sample")
}

func TestEveryLineIsAnEntryFromADocumentationAddress(t *testing.T) {
	documentation := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"),
		netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	within := func(a netip.Addr) bool {
		for _, p := range documentation {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	r := accesslog.NewReader(t.Context(), []accesslog.Input{accesslog.FromReader(sample.Name, sample.Open())},
		accesslog.Options{Reorder: accesslog.DefaultReorder})
	defer r.Close()
	for r.Next() {
		e := r.Entry()
		a, err := netip.ParseAddr(string(e.IP))
		require.NoError(t, err)
		require.True(t, within(a), "%s", e.IP)
		require.False(t, e.Time.Before(start) || e.Time.After(start.Add(length)), "%v", e.Time)
		require.True(t, strings.HasPrefix(string(e.Path), "/"), "%s", e.Path)
	}
	require.NoError(t, r.Err())
	stats := r.Stats()
	require.Zero(t, stats.Skipped)
	require.Zero(t, stats.Late)
	require.Positive(t, stats.Reordered)
	require.Equal(t, "combined", stats.Files[0].Format)
	require.InDelta(t, 4500, stats.Lines, 1500)
}
