package serve

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func atMost(n int) func(*Options) { return func(o *Options) { o.MaxConnections = n } }

// readAnswer reads a response whose connection stays.
func readAnswer(t *testing.T, reader *bufio.Reader) {
	t.Helper()
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	_ = contentOf(t, response.Body)
}

const manyByIP = "\nrules: [{name: client, policy: gcra 100000/h, by: ip}]\n"

// TestConnectionsBeyondTheLimitWait until another ends. Health is told meanwhile, because
// the API has connections of its own.
func TestConnectionsBeyondTheLimitWait(t *testing.T) {
	h := newHeld()
	w := startTestServer(t, manyByIP, withUpstream(t, h.ServeHTTP), atMost(2))
	for range 2 {
		say(t, w, "GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
		<-h.there
	}
	_, late := say(t, w, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") // the kernel accepts it
	answered := make(chan error, 1)
	go func() {
		_, err := late.Peek(1)
		answered <- err
	}()
	w.waitFull()
	for range 3 {
		require.Equal(t, http.StatusOK, fetch(t, w.apiURL("/metrics")).StatusCode)
	}
	require.Empty(t, answered, "there is no room for it")
	close(h.letGo)
	require.NoError(t, <-answered)
	readAnswer(t, late)
}

// TestIdleConnectionsCloseAtTheLimit: clients that keep connections for later do not keep others
// out.
func TestIdleConnectionsCloseAtTheLimit(t *testing.T) {
	w := startTestServer(t, manyByIP, withUpstream(t, hello), atMost(2))
	for range 20 {
		_, reader := say(t, w, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		readAnswer(t, reader)
	}
}

// TestWebSocketsCountAsConnections for as long as they are open, and no longer.
func TestWebSocketsCountAsConnections(t *testing.T) {
	w := startTestServer(t, manyByIP, withUpstream(t, echo), atMost(1))
	for range 3 { // each gets the room of the one before
		conn, reader, response := upgrade(t, w)
		require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
		require.Contains(t, response.Header.Get("RateLimit"), `"client";r=`)
		w.waitFull()
		_, err := io.WriteString(conn, "ping\n")
		require.NoError(t, err)
		_, err = reader.ReadString('\n')
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
}

func TestServerAtItsConnectionLimitStops(t *testing.T) {
	w := startTestServer(t, manyByIP, withUpstream(t, echo), atMost(1))
	upgrade(t, w)
	w.waitFull()
	w.stop()
	require.NoError(t, w.ended())
}

// waitFull waits until the proxy has logged that it has no room.
func (w *testServer) waitFull() {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return strings.Contains(w.logged.String(), "max-connections") }, testTimeout, time.Millisecond)
}

func TestAcceptFails(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := limitConnections(inner, 1, func(full bool) { require.False(t, full, "a failure takes no room") })
	require.NoError(t, inner.Close())
	for range 3 {
		_, err := l.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
	}
}
