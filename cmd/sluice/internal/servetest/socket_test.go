package servetest

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSocketAndProxyShareQuota: requests over a unix socket read, refund, charge and reset what
// the proxy counted.
func TestSocketAndProxyShareQuota(t *testing.T) {
	dir, err := os.MkdirTemp("", "sluice") // t.TempDir may be too long for a socket
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	socket, limits := filepath.Join(dir, "sluice.sock"), filepath.Join(dir, "limits.yaml")
	require.NoError(t, os.WriteFile(limits, []byte("rules: [{name: api, policy: fixedwindow 10/24h, by: ip}]\n"), 0o600))
	p := serve(t, "--config", limits, "--upstream", newUpstream(t).url, "--api", "unix:"+socket)
	left := func() string { return curl(t, p.proxy).Header.Get("RateLimit") }
	send := func(body, op string) string {
		a := curl(t, "--unix-socket", socket, "-d", body, "http://sluice/v1/"+op)
		require.Contains(t, []int{http.StatusOK, http.StatusNoContent}, a.StatusCode, a.text)
		return a.text
	}

	require.Contains(t, left(), `"api";r=9;`)
	require.Contains(t, send(`{"key":"127.0.0.1"}`, "peek"), `"remaining":9,`)
	require.Contains(t, send(`{"key":"127.0.0.1","cost":3,"rule":"api"}`, "allow"), `"allowed":true,"rule":"api","remaining":6,`)
	require.Contains(t, left(), `"api";r=5;`)
	send(`{"key":"127.0.0.1","cost":2,"rule":"api"}`, "refund")
	require.Contains(t, left(), `"api";r=6;`)
	send(`{"key":"127.0.0.1","cost":6}`, "charge")
	require.Equal(t, http.StatusTooManyRequests, curl(t, p.proxy).StatusCode)
	require.Contains(t, send(`{"key":"127.0.0.1"}`, "allow"), `"allowed":false,"rule":"api","remaining":0,`)
	send(`{"key":"127.0.0.1"}`, "reset")
	require.Contains(t, left(), `"api";r=9;`)
}
