package serve

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// openFiles returns how many files this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("the open files cannot be counted: %v", err)
	}
	return len(files)
}

// deaf returns the address of a listener that nobody accepts connections from. The kernel accepts one or two,
// and leaves further ones waiting.
func deaf(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, syscall.Listen(fd, 0))
	at, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}

// silent returns the address of a listener that accepts connections and sends nothing. It closes a
// connection when the client does.
func silent(t *testing.T) string {
	return listen(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })
}

// TestCanceledRequestsKeepNoFiles: the client sends requests over one connection and cancels each when it
// has been allowed, and the upstream is slow in some way.
func TestCanceledRequestsKeepNoFiles(t *testing.T) {
	skipIfShort(t)
	const batches, batch = 40, 50
	for name, upstream := range map[string]func(*testing.T) string{
		"does not accept connections": func(t *testing.T) string { return "http://" + deaf(t) },
		"does not answer":             func(t *testing.T) string { return "http://" + silent(t) },
		"does not begin TLS":          func(t *testing.T) string { return "https://" + silent(t) },
	} {
		t.Run(name, func(t *testing.T) {
			w := startTestServer(t, "\nrules: [{name: all, policy: fixedwindow 100000/h}]\n", at(t, upstream(t)))
			conn := dialHTTP2(t, w.proxy.Addr().String())
			go io.Copy(io.Discard, conn)
			before, most := openFiles(t), 0
			for n := range batches {
				var requests, resets strings.Builder
				for i := range batch {
					stream := uint32(2*(n*batch+i) + 1)
					requests.WriteString(getOverHTTP2(stream, "/"))
					resets.WriteString(reset(stream))
				}
				_, err := io.WriteString(conn, requests.String())
				require.NoError(t, err)
				allowed := fmt.Sprintf(`"remaining":%d,`, 100000-(n+1)*batch)
				require.Eventually(t, func() bool { return strings.Contains(w.decide("peek", `{"key":""}`).body, allowed) }, testTimeout, time.Millisecond)
				most = max(most, openFiles(t)-before)
				_, err = io.WriteString(conn, resets.String())
				require.NoError(t, err)
			}
			// The upstream's end of a connection is a file of this process too.
			require.LessOrEqual(t, most, 2*maxStreams+50)
			require.Eventually(t, func() bool { return openFiles(t)-before < 50 }, testTimeout, time.Millisecond)
		})
	}
}

// TestServerHasALimitOfRequestsInProgress: further ones get 503 and are not charged.
func TestServerHasALimitOfRequestsInProgress(t *testing.T) {
	skipIfShort(t)
	const limit = 3
	h := newHeld()
	w := startTestServer(t, "\nrules: [{name: all, policy: fixedwindow 100/h}]\n", withUpstream(t, h.ServeHTTP), atMost(limit))
	defer close(h.release)
	conn := dialHTTP2(t, w.proxy.Addr().String())
	for i := range uint32(limit + 1) {
		_, err := io.WriteString(conn, getOverHTTP2(2*i+1, "/held"))
		require.NoError(t, err)
		if i < limit {
			<-h.arrived
		}
	}
	require.Equal(t, "503", conn.outcome(t))
	require.Contains(t, w.logged.String(), "max-connections=3")
	require.Contains(t, w.decide("peek", `{"key":""}`).body, `"remaining":97`)

	_, err := io.WriteString(conn, reset(1))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		another := dialHTTP2(t, w.proxy.Addr().String())
		defer another.Close()
		_, err := io.WriteString(another, getOverHTTP2(1, "/"))
		require.NoError(t, err)
		return another.outcome(t) == "200"
	}, testTimeout, time.Millisecond, "a request that ends makes room for another")
}

func getOverHTTP2(stream uint32, path string) string {
	return headers(endStream, stream, ":method", "GET", ":scheme", "http", ":path", path, ":authority", "x")
}
