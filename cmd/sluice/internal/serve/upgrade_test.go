package serve

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOtherUpgradesAreNotForwarded: data after an upgrade is not limited.
func TestOtherUpgradesAreNotForwarded(t *testing.T) {
	seen := make(chan http.Header, 1)
	w := startTestServer(t, "\nrules: [{name: all, policy: gcra 100/h}]\n", withUpstream(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	for _, fields := range []string{
		"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"Connection: upgrade\r\nUpgrade: H2C\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",
		"Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket/13\r\n",
		"Connection: Upgrade\r\nUpgrade: web\x80s\r\n",
		"Connection: Upgrade\r\nUpgrade:\r\n",
		"HTTP2-Settings: AAMAAABkAAQAAP__\r\n",
	} {
		_, reader := say(t, w, "GET / HTTP/1.1\r\nHost: x\r\n"+fields+"\r\n")
		response, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, response.StatusCode, fields)
		got := <-seen
		for _, name := range []string{"Connection", "Upgrade", "Http2-Settings"} {
			require.NotContains(t, got, name, fields)
		}
	}
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_upstream_failures_total{status="502"} 0`)
}

func TestHTTP2SettingsAreNotForwarded(t *testing.T) {
	seen := make(chan http.Header, 1)
	w := startTestServer(t, oneByIP, withUpstream(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	say(t, w, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
	got := <-seen
	require.Equal(t, "WebSocket", got.Get("Upgrade"))
	require.Equal(t, "Upgrade", got.Get("Connection"))
	require.NotContains(t, got, "Http2-Settings")
}
