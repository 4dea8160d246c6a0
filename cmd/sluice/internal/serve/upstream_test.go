package serve

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// overTLS starts a server whose upstream offers HTTP/2 over TLS.
func overTLS(t *testing.T, handler http.HandlerFunc) *testServer {
	t.Helper()
	upstream := httptest.NewUnstartedServer(handler)
	upstream.EnableHTTP2 = true
	upstream.StartTLS()
	t.Cleanup(upstream.Close)
	w := startTestServer(t, oneByIP, at(t, upstream.URL))
	require.Equal(t, http.StatusBadGateway, fetch(t, w.proxyURL("/")).StatusCode, "the certificate is unknown")
	w.transport.TLSClientConfig.RootCAs = upstream.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return w
}

// TestUpstreamOverTLS: HTTP/2 is used if the upstream offers it, but not for WebSockets.
func TestUpstreamOverTLS(t *testing.T) {
	w := overTLS(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			echo(w, r)
			return
		}
		io.WriteString(w, r.Proto)
	})
	require.Equal(t, "HTTP/2.0", fetch(t, w.proxyURL("/")).body)
	_, _, response := upgrade(t, w)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
}

// TestGRPCNeedsAnUpstreamWithTLS: its calls pass through the proxy, with their trailers.
func TestGRPCNeedsAnUpstreamWithTLS(t *testing.T) {
	w := overTLS(t, func(w http.ResponseWriter, r *http.Request) {
		message, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "Grpc-Status")
		w.Write(message)
		w.Header().Set("Grpc-Status", r.Header.Get("Te")+r.Proto)
	})
	conn := dialHTTP2(t, w.proxy.Addr().String())
	_, err := io.WriteString(conn, headers(0, 1, ":method", "POST", ":scheme", "http", ":path", "/s/m", ":authority", "x", "te", "trailers")+frame(dataFrame, endStream, 1, "call"))
	require.NoError(t, err)
	require.Equal(t, "200", conn.outcome(t))
	kind, _, message, err := conn.next()
	require.NoError(t, err)
	require.EqualValues(t, dataFrame, kind)
	require.Equal(t, "call", string(message))
	kind, _, _, err = conn.next()
	require.NoError(t, err)
	require.EqualValues(t, headersFrame, kind)
}

const onlyHTTP2Log = "the upstream accepts HTTP/2 without TLS (h2c), and has answered no HTTP/1.1 request"

// TestUpstreamWithOnlyHTTP2IsLogged: a gRPC server closes connections that begin with HTTP/1.1, with or without
// frames of HTTP/2 before that.
func TestUpstreamWithOnlyHTTP2IsLogged(t *testing.T) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	closes := &http.Server{Handler: http.HandlerFunc(hello), Protocols: protocols}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go closes.Serve(l)
	t.Cleanup(func() { closes.Close() })
	settings := frame(settingsFrame, 0, 0, "\x00\x03\x00\x00\x00\x64")
	for name, address := range map[string]string{
		"closes":                  "http://" + l.Addr().String(),
		"sends settings":          sends(t, settings),
		"sends settings and ends": sends(t, settings+frame(goAwayFrame, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x01\n")),
	} {
		w := startTestServer(t, oneByIP, at(t, address))
		require.Equal(t, http.StatusBadGateway, fetch(t, w.proxyURL("/")).StatusCode, name)
		require.Contains(t, w.logged.String(), onlyHTTP2Log, name)
		require.Contains(t, w.logged.String(), "https://", "the remedy")
	}
}

// TestFailingUpstreamWithHTTP1IsNotTakenForHTTP2: it fails at the first request, or after another.
func TestFailingUpstreamWithHTTP1IsNotTakenForHTTP2(t *testing.T) {
	fails := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fail" {
			panic(http.ErrAbortHandler)
		}
	}
	both := httptest.NewUnstartedServer(http.HandlerFunc(fails))
	both.Config.Protocols = new(http.Protocols)
	both.Config.Protocols.SetHTTP1(true)
	both.Config.Protocols.SetUnencryptedHTTP2(true)
	both.Start()
	t.Cleanup(both.Close)
	for name, c := range map[string]struct {
		upstream func(*Options)
		paths    []string
	}{
		"HTTP/1.1":               {withUpstream(t, fails), []string{"/fail"}},
		"HTTP/1.1 and HTTP/2":    {at(t, both.URL), []string{"/", "/fail"}},
		"acknowledges no frames": {at(t, sends(t, frame(settingsFrame, 1, 0, ""))), []string{"/"}},
	} {
		w := startTestServer(t, oneByIP, c.upstream)
		for _, path := range c.paths {
			fetch(t, w.proxyURL(path))
		}
		require.Contains(t, w.logged.String(), "the upstream failed", name)
		require.NotContains(t, w.logged.String(), onlyHTTP2Log, name)
	}
}
