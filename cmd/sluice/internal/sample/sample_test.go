package sample

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
)

var update = flag.Bool("update", false, "write the sample log")

func TestTheEmbeddedLogIsTheGeneratedOne(t *testing.T) {
	if *update {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		require.NoError(t, err)
		_, err = z.Write(sampleLog())
		require.NoError(t, err)
		require.NoError(t, z.Close())
		zipped = b.Bytes()
		require.NoError(t, os.WriteFile("access.log.gz", zipped, 0o644))
	}
	z, err := gzip.NewReader(Open())
	require.NoError(t, err)
	embedded, err := io.ReadAll(z)
	require.NoError(t, err)
	require.True(t, bytes.Equal(sampleLog(), embedded), "run go test ./cmd/sluice/internal/sample -update")
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
	stats, err := accesslog.Read(t.Context(), []accesslog.Input{accesslog.FromReader(Name, Open())}, accesslog.Options{Reorder: accesslog.DefaultReorder}, func(e *accesslog.Entry) error {
		a, err := netip.ParseAddr(string(e.IP))
		require.NoError(t, err)
		require.True(t, within(a), "%s", e.IP)
		require.False(t, e.Time.Before(start) || e.Time.After(start.Add(length)), "%v", e.Time)
		require.True(t, strings.HasPrefix(string(e.Path), "/"), "%s", e.Path)
		return nil
	})
	require.NoError(t, err)
	require.Zero(t, stats.Skipped)
	require.Zero(t, stats.Late)
	require.Positive(t, stats.Reordered)
	require.Zero(t, stats.JSON)
	require.InDelta(t, 4500, stats.Lines, 1500)
}
