package serve

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Types and flags of HTTP/2 frames (RFC 9113, section 6).
const (
	dataFrame, headersFrame, resetFrame, settingsFrame, goAwayFrame = 0, 1, 3, 4, 7
	endStream, endHeaders                                           = 1, 4
)

const clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// http2Conn is an HTTP/2 connection without TLS. Unlike http.Transport it sends any header.
type http2Conn struct {
	net.Conn
	reader *bufio.Reader
}

func dialHTTP2(t *testing.T, address string) *http2Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testTimeout))
	_, err = io.WriteString(conn, clientPreface+frame(settingsFrame, 0, 0, ""))
	require.NoError(t, err)
	return &http2Conn{conn, bufio.NewReader(conn)}
}

func frame(kind, flags byte, stream uint32, payload string) string {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return string(binary.BigEndian.AppendUint32(append(head, flags), stream)) + payload
}

// headers returns a frame with the fields, which are names and values.
func headers(flags byte, stream uint32, fields ...string) string {
	var block strings.Builder
	for i := 0; i < len(fields); i += 2 {
		block.WriteByte(0) // a literal field without indexing (RFC 7541)
		for _, text := range fields[i : i+2] {
			block.WriteByte(byte(len(text)))
			block.WriteString(text)
		}
	}
	return frame(headersFrame, flags|endHeaders, stream, block.String())
}

func reset(stream uint32) string { return frame(resetFrame, 0, stream, "\x00\x00\x00\x08") }

// next returns the next frame.
func (c *http2Conn) next() (kind byte, stream uint32, payload []byte, err error) {
	head := make([]byte, 9)
	if _, err = io.ReadFull(c.reader, head); err != nil {
		return 0, 0, nil, err
	}
	payload = make([]byte, binary.BigEndian.Uint32(head)>>8)
	_, err = io.ReadFull(c.reader, payload)
	return head[3], binary.BigEndian.Uint32(head[5:]), payload, err
}

// outcome returns the status of the first response on the connection, or "reset" if the stream was
// reset.
func (c *http2Conn) outcome(t *testing.T) string {
	t.Helper()
	for {
		kind, _, payload, err := c.next()
		require.NoError(t, err)
		switch kind {
		case resetFrame:
			return "reset"
		case goAwayFrame:
			return "goaway"
		case headersFrame:
			return firstStatus(payload)
		}
	}
}

// firstStatus decodes the status at the beginning of a connection's first header block (RFC 7541): an entry of the static
// table, or a literal of three digits, which are never shorter in the Huffman code.
func firstStatus(block []byte) string {
	if status, ok := map[byte]string{0x88: "200", 0x8c: "400"}[block[0]]; ok {
		return status
	}
	return string(block[2:5])
}

// TestMalformedRequestsOverHTTP2AreNotCharged: net/http accepts them over HTTP/2, and would refuse or
// change them over HTTP/1.1. They must not count as failures of the upstream either.
func TestMalformedRequestsOverHTTP2AreNotCharged(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello))
	for name, c := range map[string]struct {
		method, path, authority string
		fields                  []string // further ones
		body                    bool
	}{
		"method with a space":      {method: "GET /smug"},
		"method of other letters":  {method: "G\u00c9T"},
		"path with a space":        {path: "/a b"},
		"asterisk":                 {path: "*"},
		"opaque path":              {path: "x:login"},
		"authority with a space":   {authority: "shop example"},
		"another Host":             {fields: []string{"host", "other.example"}},
		"length without a body":    {fields: []string{"content-length", "5"}},
		"length that is no number": {fields: []string{"content-length", "abc"}, body: true},
		"two lengths":              {fields: []string{"content-length", "3", "content-length", "4"}, body: true},
	} {
		t.Run(name, func(t *testing.T) {
			fields := []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "shop.example"}
			for i, value := range map[int]string{1: c.method, 5: c.path, 7: c.authority} {
				if value != "" {
					fields[i] = value
				}
			}
			conn := dialHTTP2(t, w.proxy.Addr().String())
			text := headers(endStream, 1, append(fields, c.fields...)...)
			if c.body {
				text = headers(0, 1, append(fields, c.fields...)...)
			}
			_, err := io.WriteString(conn, text)
			require.NoError(t, err)
			require.Equal(t, "400", conn.outcome(t))
		})
	}
	conn := dialHTTP2(t, w.proxy.Addr().String())
	_, err := io.WriteString(conn, headers(endStream, 1, ":method", "CONNECT", ":authority", "x:1"))
	require.NoError(t, err)
	require.Equal(t, "405", conn.outcome(t))

	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_upstream_failures_total{status="502"} 0`)
	require.Contains(t, w.decide("peek", `{"key":"127.0.0.1"}`).body, `"remaining":3`)
	require.NotContains(t, w.logged.String(), "the upstream failed")
}

// TestUnusualRequestsOverHTTP2AreForwarded: the checks refuse nothing that HTTP/1.1 allows.
func TestUnusualRequestsOverHTTP2AreForwarded(t *testing.T) {
	seen := make(chan *http.Request, 1)
	w := startTestServer(t, "\nrules: [{name: all, policy: gcra 100/h}]\n", withUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		seen <- r
	}))
	for name, c := range map[string]struct {
		fields []string
		body   string
		check  func(t *testing.T, r *http.Request)
	}{
		"own method":          {[]string{":method", "x-PURGE", ":path", "/", ":authority", "x"}, "", func(t *testing.T, r *http.Request) { require.Equal(t, "x-PURGE", r.Method) }},
		"path":                {[]string{":method", "GET", ":path", "//a/\u00e9?b#c=\u00e9|{}", ":authority", "x"}, "", func(t *testing.T, r *http.Request) { require.Equal(t, "//a/%C3%A9?b#c=\u00e9|{}", r.RequestURI) }},
		"authority of IPv6":   {[]string{":method", "GET", ":path", "/", ":authority", "[::1]:80"}, "", func(t *testing.T, r *http.Request) { require.Equal(t, "[::1]:80", r.Host) }},
		"Host instead":        {[]string{":method", "GET", ":path", "/", "host", "x_y.example"}, "", func(t *testing.T, r *http.Request) { require.Equal(t, "x_y.example", r.Host) }},
		"length":              {[]string{":method", "POST", ":path", "/", ":authority", "x", "content-length", "3"}, "abc", func(t *testing.T, r *http.Request) { require.EqualValues(t, 3, r.ContentLength) }},
		"body without length": {[]string{":method", "POST", ":path", "/", ":authority", "x", "te", "trailers"}, "abc", func(t *testing.T, r *http.Request) { require.EqualValues(t, -1, r.ContentLength) }},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dialHTTP2(t, w.proxy.Addr().String())
			fields := append([]string{":scheme", "http"}, c.fields...)
			text := headers(endStream, 1, fields...)
			if c.body != "" {
				text = headers(0, 1, fields...) + frame(dataFrame, endStream, 1, c.body)
			}
			_, err := io.WriteString(conn, text)
			require.NoError(t, err)
			require.Equal(t, "200", conn.outcome(t))
			c.check(t, <-seen)
		})
	}
}

// TestInvalidHostsInTargetsAreRefused: net/http checks the field Host, but not the host of a target.
func TestInvalidHostsInTargetsAreRefused(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello))
	for _, target := range []string{`http://a"b/`, "http://a<b/", "http://%80/", "http://sh\u00f6p/", "*"} {
		require.Equal(t, http.StatusBadRequest, statusOf(t, w, target), target)
	}
	require.Contains(t, w.decide("peek", `{"key":"127.0.0.1"}`).body, `"remaining":3`)
	require.NotContains(t, w.logged.String(), "the upstream failed")
}

// openFiles returns how many files this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("the open files cannot be counted: %v", err)
	}
	return len(files)
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
		"does not answer":    func(t *testing.T) string { return "http://" + silent(t) },
		"does not begin TLS": func(t *testing.T) string { return "https://" + silent(t) },
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
