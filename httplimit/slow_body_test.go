// These tests promise that a denial does not wait for the body of its request.
package httplimit_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/httplimit"
)

// maxWait bounds waits that are short unless something is broken.
const maxWait = 20 * time.Second

// exhausted is a server that denies every request.
func exhausted(t *testing.T, wrap func(http.Handler) http.Handler) *httptest.Server {
	t.Helper()
	limiter := limiterOf(t, nil, "fixedwindow 1/24h")
	_, err := limiter.Allow(t.Context(), httptest.NewRequest("GET", "/", nil))
	require.NoError(t, err)
	never := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { assert.Fail(t, "a denied request was served") })
	h := httplimit.Handler(limiter, never, httplimit.Options{})
	if wrap != nil {
		h = wrap(h)
	}
	server := httptest.NewUnstartedServer(h)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// sendRaw opens a connection and sends text on it.
func sendRaw(t *testing.T, server *httptest.Server, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(maxWait)))
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn
}

const slowPost = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx"

// The client sends one byte of its body and no more. The denial arrives, and then the server
// closes the connection.
func TestDenialDoesNotWaitForTheBody(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		wrap    func(http.Handler) http.Handler
	}{
		"content-length": {request: slowPost},
		"small":          {request: "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx"},
		"chunked":        {request: "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"},
		"HTTP/1.0":       {request: "POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 100000\r\n\r\nx"},
		"expect":         {request: "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n"},
		"wrapped writer": {request: slowPost, wrap: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(wrapper{w}, r) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := bufio.NewReader(sendRaw(t, exhausted(t, c.wrap), c.request))
			response, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
			require.True(t, response.Close, "the response must say that the connection closes")
			require.Equal(t, []string{"own"}, problemOf(t, response).Violated)
			_, err = io.Copy(io.Discard, reader)
			require.NoError(t, err, "the server closes the connection without a reset")
		})
	}
}

// wrapper is a middleware's ResponseWriter.
type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A client that sends its whole body before it reads must get the denial, and not a
// connection reset.
func TestDenialReachesAClientThatSendsFirst(t *testing.T) {
	server := exhausted(t, nil)
	for _, size := range []int{100, 100_000, 250_000} {
		response, err := http.Post(server.URL, "text/plain", strings.NewReader(strings.Repeat("x", size)))
		require.NoError(t, err, "%d bytes", size)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	}
}

// A middleware such as http.MaxBytesHandler wraps also the body of a request that has none.
func TestDenialWithoutABodyKeepsTheConnection(t *testing.T) {
	for _, wrap := range []func(http.Handler) http.Handler{nil, func(next http.Handler) http.Handler { return http.MaxBytesHandler(next, 1000) }} {
		conn := sendRaw(t, exhausted(t, wrap), "")
		reader := bufio.NewReader(conn)
		for range 3 {
			_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			response, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
			require.False(t, response.Close)
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
		}
	}
}

func TestDenialOverHTTP2DoesNotWaitForTheBody(t *testing.T) {
	server := exhausted(t, nil)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: maxWait}
	for range 3 {
		body, stall := io.Pipe()
		go func() { _, _ = stall.Write([]byte("x")) }() // and nothing more
		response, err := client.Post(server.URL, "text/plain", body)
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
		require.Equal(t, 2, response.ProtoMajor)
		require.NoError(t, response.Body.Close())
		_ = body.Close()
	}
}
