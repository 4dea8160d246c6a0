package httplimit_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/httplimit"
)

// listenUnix serves a handler on a unix socket, to which the transport connects.
func listenUnix(t *testing.T, h http.Handler) *http.Transport {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") // a socket's path has to be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "http")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(h)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// proxyTo appends to X-Forwarded-For, as proxies do.
func proxyTo(t *testing.T, transport http.RoundTripper) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: "server"})
		r.Out.Header[xff] = r.In.Header[xff]
		r.SetXForwarded()
	}})
	t.Cleanup(server.Close)
	return server
}

// Over real connections, through a proxy and a unix socket: whatever the attacker
// forges he gets what one client gets, and his victim has all of its own.
func TestNobodyIsFreedOrFramed(t *testing.T) {
	const victim = "198.51.100.7"
	key, err := httplimit.ClientIP{TrustUnix: true}.Key()
	require.NoError(t, err)
	limiter, err := compose.Options[*http.Request]{Clock: still}.New(nil,
		compose.Rule[*http.Request]{Name: "client", Key: key, Spec: "gcra 3/h"})
	require.NoError(t, err)
	transport := listenUnix(t, httplimit.Handler(limiter, hello, httplimit.Options{}))
	proxy := proxyTo(t, transport)

	allowed := 0
	for _, forgery := range forgeries(victim) {
		if strings.Contains(forgery, "\x00") {
			continue // what no client can send, nor any server read
		}
		if ask(t, proxy.Client().Transport, proxy.URL, http.Header{xff: {victim, forgery}, "Forwarded": {forgery}}) == http.StatusOK {
			allowed++
		}
	}
	require.Equal(t, 3, allowed)
	for range 3 {
		require.Equal(t, http.StatusOK, ask(t, transport, "http://server", http.Header{xff: {victim}}))
	}
}

func ask(t *testing.T, via http.RoundTripper, address string, h http.Header) (status int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	r.Header = h
	response, err := via.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}
