package serve

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/httplimit"
)

const trustingLoopback = "trusted: [127.0.0.1]\n" + oneByIP

// TestAWrongTrustedListIsLoggedAndCounted: the log has the peer and the remedy.
func TestAWrongTrustedListIsLoggedAndCounted(t *testing.T) {
	for name, c := range map[string]struct {
		rules, field, value, reason, log string
	}{
		"untrusted":            {oneByIP, "X-Forwarded-For", "203.0.113.7", untrustedPeer, `not trusted" peer=127.0.0.1 remedy="if the peer is your own proxy, add its address to trusted`},
		"untrusted, Forwarded": {oneByIP, "Forwarded", "for=203.0.113.7", untrustedPeer, `not trusted" peer=127.0.0.1 `},
		"garbage":              {trustingLoopback, "X-Forwarded-For", "SECRET", noAddress, `no client address" peer=127.0.0.1 remedy="configure each trusted proxy to append`},
		"right":                {trustingLoopback, "X-Forwarded-For", "203.0.113.7", "", ""},
		"direct":               {oneByIP, "X-Other", "x", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := startTestServer(t, c.rules, withUpstream(t, hello))
			for i := range 5 { // of which the last 2 are denied
				want := http.StatusOK
				if i >= 3 {
					want = http.StatusTooManyRequests
				}
				require.Equal(t, want, fetch(t, w.proxyURL("/"), c.field, c.value).StatusCode)
			}
			metrics := fetch(t, w.apiURL("/metrics")).body
			for _, reason := range []string{untrustedPeer, noAddress} {
				count := 0
				if reason == c.reason {
					count = 5
				}
				require.Contains(t, metrics, fmt.Sprintf("sluice_forwarding_faults_total{reason=%q} %d\n", reason, count))
			}
			require.Contains(t, w.logged.String(), c.log)
			require.NotContains(t, w.logged.String(), "SECRET")
			lines := 0
			if c.log != "" {
				lines = 1
			}
			require.Equal(t, lines, strings.Count(w.logged.String(), "level=WARN"), w.logged.String())
		})
	}
}

func TestServerLogsThatNoProxyIsTrusted(t *testing.T) {
	const said = "no proxy is trusted"
	for rules, want := range map[string]bool{oneByIP: true, trustingLoopback: false, "trusted: []\n" + oneByIP: false} {
		w := startTestServer(t, rules, withUpstream(t, hello))
		fetch(t, w.proxyURL("/")) // so it has logged its start
		w.stop()
		require.NoError(t, w.ended())
		require.Equal(t, want, strings.Contains(w.logged.String(), said), rules)
	}
	w := startTestServer(t, oneByIP)
	require.Equal(t, http.StatusOK, fetch(t, w.apiURL("/metrics")).StatusCode)
	w.stop()
	require.NoError(t, w.ended())
	require.NotContains(t, w.logged.String(), said, "without an upstream")
}

// TestForwardingWarningsAreSampled: peers are not stored.
func TestForwardingWarningsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged lines
		faults := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "faults"}, []string{"reason"})
		s := &Server{forwardingLog: sampleLog(slog.New(slog.NewTextHandler(&logged, nil)), forwardingSamples), metrics: &metrics{forwarding: faults}}
		const peers = 10_000
		for i := range peers {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = fmt.Sprintf("[2001:db8::%x]:9", i)
			s.reportForwarding(r, httplimit.ErrUntrustedPeer)
			if i == peers-2 {
				require.Equal(t, 1, strings.Count(logged.String(), "\n"))
				require.Len(t, s.forwardingLog.omitted, 1)
				time.Sleep(time.Minute) // of synctest
			}
		}
		require.Equal(t, 2, strings.Count(logged.String(), "\n"))
		require.Contains(t, logged.String(), fmt.Sprintf("peer=2001:db8::%x ", peers-1))
		require.Contains(t, logged.String(), fmt.Sprintf("omitted=%d\n", peers-2))
		require.EqualValues(t, peers, testutil.ToFloat64(faults.WithLabelValues(untrustedPeer)))
	})
}
