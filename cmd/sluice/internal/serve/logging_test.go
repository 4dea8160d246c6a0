package serve

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/stretchr/testify/require"
)

func TestLogSampling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged lines
		log := sampledTo(&logged)
		for i := range 100 {
			log.Warn("same", "peer", i)
		}
		log.Warn("other")
		log.Debug("not enabled")
		require.Equal(t, 3, strings.Count(logged.String(), "same"))
		require.Equal(t, 1, strings.Count(logged.String(), "other"))
		require.NotContains(t, logged.String(), "enabled")
		failures := errorLog(log, "failed")
		for i := range 10 {
			failures.Printf("connection %d", i)
		}
		require.Equal(t, 3, strings.Count(logged.String(), "msg=failed"))
		require.Contains(t, logged.String(), `error="connection 2"`)
		require.Len(t, log.Handler().(*sampler).omitted, 2, "many peers need no more memory")
		time.Sleep(10 * time.Second)
		log.Warn("same")
		require.Contains(t, logged.String(), "omitted=97")
	})
}

// stuckLog is a log whose reader has stopped.
type stuckLog struct{ begun, end chan struct{} }

func (l stuckLog) Write(line []byte) (int, error) {
	close(l.begun)
	<-l.end
	return len(line), nil
}

// TestOmittedMessagesDoNotWaitForTheLog: otherwise each request that fails would wait for it.
func TestOmittedMessagesDoNotWaitForTheLog(t *testing.T) {
	stuck := stuckLog{make(chan struct{}), make(chan struct{})}
	defer close(stuck.end)
	log := sampleLog(slog.New(slog.NewTextHandler(stuck, nil)), "gcra 1/h")
	go log.Warn("same")
	<-stuck.begun
	omitted := make(chan struct{})
	go func() {
		log.Warn("same")
		close(omitted)
	}()
	select {
	case <-omitted:
	case <-time.After(5 * time.Second):
		t.Error("it waits")
	}
}

// sends starts an upstream that answers the first request of each connection with a text. It returns its URL.
func sends(t *testing.T, text string) string {
	return "http://" + listen(t, func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			io.WriteString(conn, text)
		}
	})
}

// listen starts a server of connections on loopback, and returns its address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// TestInvalidResponsesAreNotLogged: parts of a response may be secrets. net/http writes
// unsolicited responses to package log.
func TestInvalidResponsesAreNotLogged(t *testing.T) {
	for _, response := range []string{
		"TOPSECRET\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTOPSECRET\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: TOPSECRET\r\n\r\n",
	} {
		w := startTestServer(t, oneByIP, at(t, sends(t, response)))
		require.Equal(t, http.StatusBadGateway, fetch(t, w.proxyURL("/")).StatusCode, response)
		require.Contains(t, w.logged.String(), "the upstream failed")
		require.NotContains(t, w.logged.String(), "TOPSECRET")
	}
}

// TestUnquoted also has errors of older versions of net/http, and errors that end within a quotation.
func TestUnquoted(t *testing.T) {
	for text, want := range map[string]string{
		`plain: no secret`:      `plain: no secret`,
		`x "TOP" y "a \" b" z`:  `x ... y ... z`,
		`x "TOP`:                `x ...`,
		`x "TOP\`:               `x ...`,
		`x "TOP\\`:              `x ...`,
		"x \"TOP\\\nSECRET\" y": `x ... y`,
		"x \"TOP\nSECRET\" y":   `x ... y`,
		"net/http: malformed MIME header initial line: TOP: SECRET": "net/http: malformed MIME header initial line: ...",
		"malformed MIME header line: TOP\nSECRET":                   "malformed MIME header line: ...",
		`malformed MIME header: missing colon: "TOPSECRET"`:         "malformed MIME header: ...",
	} {
		require.Equal(t, want, readable.Unquoted(text))
	}
}

func TestWithoutAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"timeout waiting for SETTINGS frames from 127.0.0.1:34472":             "timeout waiting for SETTINGS frames from ...",
		"read tcp 192.0.2.1:80->203.0.113.7:5: i/o timeout":                    "read tcp ...->...: i/o timeout",
		"http: panic serving [2001:db8::7]:5: x\ngoroutine 1":                  "http: panic serving ...: x\ngoroutine 1",
		"http2: server connection error from [fe80::1%eth0]:5: PROTOCOL_ERROR": "http2: server connection error from ...: PROTOCOL_ERROR",
		"from [::ffff:192.0.2.1]:5":                                            "from ...",
		"slices.Index[...]({0x1}): a.go:10 +0x1d":                              "slices.Index[...]({0x1}): a.go:10 +0x1d",
	} {
		require.Equal(t, want, withoutAddresses(text))
	}
}

func TestFailedConnectionsLogNoAddress(t *testing.T) {
	skipIfShort(t)
	w := startTestServer(t, oneByIP, withUpstream(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }), func(o *Options) { o.ClientTimeout = slack / 2 })
	const ping = "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678" // where SETTINGS must be first
	_, reader := sendText(t, w, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+ping)
	io.Copy(io.Discard, reader)
	_, reader = sendText(t, w, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
	io.Copy(io.Discard, reader)
	require.Contains(t, w.logged.String(), `"http2: server connection error from ...: connection error: PROTOCOL_ERROR"`)
	require.Contains(t, w.logged.String(), `"a request body ended early" error="read tcp ...->...: i/o timeout"`)
}
