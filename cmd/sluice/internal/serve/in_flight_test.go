package serve

// These tests promise that a request to the proxy counts under a rule such as "inflight 20 ttl=30s" until its response has ended.

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/sluicetest"
)

const oneAtATime = `
rules:
  - {name: running, policy: inflight 1 ttl=30s, by: ip}
  - {name: client, policy: gcra 1000/h, by: ip}
`

// inFlight returns how many requests hold a unit.
func (w *testServer) inFlight() int64 {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodGet, "/", nil)
	require.NoError(w.t, err)
	r.RemoteAddr = "127.0.0.1:1"
	d, err := w.current.Load().proxy.Peek(w.t.Context(), r)
	require.NoError(w.t, err)
	return d.Results[0].Limit - d.Results[0].Remaining
}

func TestProxyLimitsRequestsAtTheSameTime(t *testing.T) {
	h := newHeld()
	w := startTestServer(t, oneAtATime, withUpstream(t, h.ServeHTTP))
	failed := h.begin(w)
	denied := fetch(t, w.proxyURL("/"))
	require.Equal(t, http.StatusTooManyRequests, denied.StatusCode)
	require.Equal(t, "1", denied.Header.Get("Retry-After"))
	require.Equal(t, `"running";r=0;t=1, "client";r=999;t=4`, denied.Header.Get("RateLimit"))
	require.Equal(t, `"running";q=1;qu="concurrent-requests", "client";q=1000;w=3600`, denied.Header.Get("RateLimit-Policy"))
	require.Contains(t, denied.body, `"violated-policies":["running"]`)

	close(h.release)
	require.NoError(t, <-failed)
	require.Equal(t, 5, w.allowed(5), "each request ends before the next")
	require.Zero(t, w.inFlight())
}

func TestWebSocketsCountUntilTheyClose(t *testing.T) {
	w := startTestServer(t, oneAtATime, withUpstream(t, echo))
	conn, reader, response := upgrade(t, w)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	ping(t, conn, reader)
	require.Equal(t, http.StatusTooManyRequests, fetch(t, w.proxyURL("/")).StatusCode)
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool { return w.inFlight() == 0 }, testTimeout, time.Millisecond)
}

// Others could get the units then, so the request must not go on.
func TestRequestsEndIfTheStoreFailsLongerThanTheTTL(t *testing.T) {
	for _, begun := range []bool{false, true} {
		var log bytes.Buffer
		store := new(sluicetest.Store)
		hangs := func(w http.ResponseWriter, r *http.Request) {
			if begun {
				_ = http.NewResponseController(w).Flush()
			}
			store.Fail(nil)
			<-r.Context().Done()
		}
		limitedProxy{oneAtATime, store, &log}.run(t, hangs, func(t *testing.T, front *pipes) {
			began := time.Now()
			response, _ := front.exchange(t, "GET / HTTP/1.1\r\nHost: x", onConn(func(io.Writer) {}))
			body, err := io.ReadAll(response.Body)
			require.InDelta(t, 30*time.Second, time.Since(began), float64(time.Second))
			if begun {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			} else {
				require.Equal(t, http.StatusBadGateway, response.StatusCode)
				require.Contains(t, string(body), "the units that the request held are not in the store of the limits any more, so the request was ended before the upstream answered; the cost of the request is not refunded")
			}
			synctest.Wait()
			require.Contains(t, log.String(), `level=WARN msg="the units that a request held are not in the store any more, so the request was ended"`)
			require.Contains(t, log.String(), `rule \"running\" has a ttl of 30s`)
		})
	}
}

// The store works, so the log must not say that it failed.
func TestRequestsEndIfOthersGetTheirUnitsAfterAReset(t *testing.T) {
	h := newHeld()
	w := startTestServer(t, "rules: [{name: running, policy: inflight 1 ttl=300ms slots=1000}]", withUpstream(t, h.ServeHTTP))
	failed := h.begin(w)
	r, err := http.NewRequest(http.MethodGet, "/", nil)
	require.NoError(t, err)
	proxy := w.current.Load().proxy
	require.NoError(t, proxy.Reset(t.Context(), r))
	other, err := proxy.Allow(t.Context(), r)
	require.NoError(t, err)
	require.True(t, other.Allowed)
	require.Error(t, <-failed)
	w.stop()
	require.NoError(t, w.ended())
	require.Contains(t, w.logged.String(), `msg="the units that a request held are not in the store any more, so the request was ended" error="sluice: the held units have returned: the store has lost the units of rule`)
	require.NotContains(t, w.logged.String(), "the store failed")
}

// A program that asks cannot release what it holds.
func TestDecisionServiceKnowsNoRulesForRequestsAtTheSameTime(t *testing.T) {
	_, err := newTestServer(t, oneAtATime)
	require.ErrorContains(t, err, "rule running: the decision service sees neither the response nor the end of a request; use the proxy (--upstream)")

	w := startTestServer(t, oneAtATime, withUpstream(t, hello))
	for range 3 {
		a := w.decide("allow", `{"key":"127.0.0.1"}`)
		require.Equal(t, http.StatusOK, a.StatusCode)
		require.Contains(t, a.body, `{"allowed":true,"rule":"client",`)
	}
	require.Zero(t, w.inFlight())
	for op := range operations {
		a := w.decide(string(op), `{"key":"127.0.0.1","rule":["client","running"]}`)
		require.Equal(t, http.StatusNotFound, a.StatusCode)
		require.Contains(t, a.body, `"detail":"rule \"running\" is for the proxy alone: the decision service sees neither the response nor the end of a request; the member rules lists the names of all other rules","field":"rule","rules":["client"]`)
	}

	w.rules.Store("rules: [{name: running, policy: inflight 1 ttl=30s, by: 'header:X'}]")
	require.NoError(t, w.Reload(t.Context()))
	a := w.decide("allow", `{"key":""}`)
	require.Equal(t, http.StatusNotFound, a.StatusCode)
	require.Contains(t, a.body, `"detail":"all rules are for the proxy alone: the decision service sees neither the response nor the end of a request","field":"rule"`)
}
