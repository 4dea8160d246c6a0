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

	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// Types and flags of HTTP/2 frames (RFC 9113, section 6).
const (
	dataFrame, headersFrame, resetFrame, settingsFrame = 0, 1, 3, 4
	endStream, endHeaders                              = 1, 4
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

// TestRequestsOverHTTP2: malformed ones are not charged, and do not count as failures of the upstream.
func TestRequestsOverHTTP2(t *testing.T) {
	seen := make(chan *http.Request, 1)
	w := startTestServer(t, "\nrules: [{name: all, policy: gcra 100/h}]\n", withUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		seen <- r
	}))
	forwarded := 0
	tracetest.Answers(t, "testdata/http2.txt", func(question string) string {
		head, body, hasBody := strings.Cut(question, " | body=")
		var fields []string
		if !strings.Contains(head, "CONNECT") {
			fields = append(fields, ":scheme", "http")
		}
		for field := range strings.SplitSeq(head, " | ") {
			name, value, _ := strings.Cut(field, "=")
			fields = append(fields, name, value)
		}
		text := headers(endStream, 1, fields...)
		if hasBody {
			text = headers(0, 1, fields...)
		}
		if body != "" {
			text += frame(dataFrame, endStream, 1, body)
		}
		conn := dialHTTP2(t, w.proxy.Addr().String())
		_, err := io.WriteString(conn, text)
		require.NoError(t, err)
		outcome := conn.outcome(t)
		if outcome == "200" {
			forwarded++
			r := <-seen
			outcome += fmt.Sprintf(" %s %s %s %d", r.Method, r.RequestURI, r.Host, r.ContentLength)
		}
		return outcome
	})
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_upstream_failures_total{status="502"} 0`)
	require.Contains(t, w.decide("peek", `{"key":""}`).body, fmt.Sprintf(`"remaining":%d,`, 100-forwarded))
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

// TestInterimResponsesOfCanceledRequests: over HTTP/2, net/http can read the header of an interim response when the request has
// ended. If the header changed meanwhile, the race detector would find it, or the process would end.
func TestInterimResponsesOfCanceledRequests(t *testing.T) {
	w := startTestServer(t, "\nrules: [{name: all, policy: gcra 10000/s}]\n", withUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 100 { // so that it takes long to read them
			w.Header().Set(fmt.Sprintf("X-Hint-%d", i), "some text")
		}
		for range 10 {
			w.WriteHeader(http.StatusEarlyHints)
		}
	}))
	for range 5 {
		const streams = 50
		conn := dialHTTP2(t, w.proxy.Addr().String())
		var requests strings.Builder
		for i := range uint32(streams) {
			requests.WriteString(getOverHTTP2(2*i+1, "/"))
		}
		_, err := io.WriteString(conn, requests.String())
		require.NoError(t, err)
		for canceled := make(map[uint32]bool); len(canceled) < streams; {
			kind, stream, _, err := conn.next()
			require.NoError(t, err)
			if kind == headersFrame && !canceled[stream] {
				canceled[stream] = true
				_, err := io.WriteString(conn, reset(stream))
				require.NoError(t, err)
			}
		}
	}
}
