package serve

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
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

// TestInvalidResponsesAreNotLogged: the client gets 502, and parts of a response may be secrets. net/http writes
// unsolicited responses to package log.
func TestInvalidResponsesAreNotLogged(t *testing.T) {
	for _, response := range []string{
		"TOPSECRET\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTOPSECRET\r\n\r\n",
		"HTTP/1.1 099 TOPSECRET\r\nX: TOPSECRET\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: TOPSECRET\r\n\r\n",
	} {
		w := startTestServer(t, oneByIP, at(t, sends(t, response)))
		require.Equal(t, http.StatusBadGateway, fetch(t, w.proxyURL("/")).StatusCode, response)
		require.Contains(t, w.logged.String(), "the upstream failed")
		require.NotContains(t, w.logged.String(), "TOPSECRET")
	}
}

func TestErrorsAreLoggedWithoutSecrets(t *testing.T) {
	tracetest.Answers(t, "testdata/unquoted.txt", readable.Unquoted)
	tracetest.Answers(t, "testdata/addresses.txt", withoutAddresses)
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

func TestMetrics(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello), func(o *Options) { o.Version, o.MaxKeys = "v1.2.3", 2 })
	require.Equal(t, 3, w.allowed(5))
	w.decide("allow", `{"key":"secret-key"}`)
	text := fetch(t, w.apiURL("/metrics")).body
	for _, want := range []string{
		`sluice_decisions_total{limiter="proxy",op="allow",outcome="denied",rule="client"} 2`,
		`sluice_decisions_total{limiter="service",op="allow",outcome="allowed",rule="client"} 1`,
		`sluice_memory_store_keys_limit{store="decisions"} 2`,
		`sluice_build_info{version="v1.2.3"} 1`,
		`sluice_rules 1`,
		`sluice_reloads_total{outcome="failed"} 0`,
		`sluice_upstream_failures_total{status="502"} 0`,
		`sluice_upstream_failures_total{status="504"} 0`,
		`sluice_purges_total{outcome="failed"} 0`,
		`sluice_rules_read_timestamp_seconds 1.`,
		`go_goroutines`,
		`process_start_time_seconds`,
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "127.0.0.1")
	require.NotContains(t, text, "secret-key")
	problems, err := testutil.GatherAndLint(w.metrics.registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}
