package serve

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUpstreamOverTLS: HTTP/2 is used if the upstream offers it, but not for WebSockets.
func TestUpstreamOverTLS(t *testing.T) {
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			echo(w, r)
			return
		}
		io.WriteString(w, r.Proto)
	}))
	upstream.EnableHTTP2 = true
	upstream.StartTLS()
	t.Cleanup(upstream.Close)
	w := startTestServer(t, oneByIP, at(t, upstream.URL))
	require.Equal(t, http.StatusBadGateway, fetch(t, w.proxyURL("/")).StatusCode, "the certificate is unknown")
	w.transport.TLSClientConfig.RootCAs = upstream.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	require.Equal(t, "HTTP/2.0", fetch(t, w.proxyURL("/")).body)
	_, _, response := upgrade(t, w)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
}
