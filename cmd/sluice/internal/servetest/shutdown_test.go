package servetest

import (
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestShutdownDelay: after SIGTERM, /readyz fails, and the program still serves new connections until the
// delay is over or a second signal arrives. After SIGINT there is no delay.
func TestShutdownDelay(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p := serve(t, "--limit", "gcra 100/s", "--upstream", newUpstream(t).url, "--shutdown-delay", "1h")
		require.Equal(t, http.StatusOK, get(t, p.api+"/readyz"))
		p.signal(s)
		if s == syscall.SIGTERM {
			require.Eventually(t, func() bool { return get(t, p.api+"/readyz") == http.StatusServiceUnavailable }, testTimeout, time.Millisecond)
			require.Equal(t, http.StatusOK, get(t, p.api+"/livez"))
			require.Equal(t, http.StatusOK, get(t, p.proxy))
			require.Equal(t, http.StatusOK, send(t, p.api+"/v1/allow", `{"key":"a"}`).StatusCode)
			p.waitForLog(`msg="shutting down" delay=1h0m0s`)
			p.signal(s)
		}
		require.Zero(t, p.exitCode())
		p.waitForLog("cut=false")
	}
}

// TestShutdownUnderLoad ends the program under load. Each request that reached the upstream gets its whole
// response. Later requests cannot connect.
func TestShutdownUnderLoad(t *testing.T) {
	const connections = 32
	u := newUpstream(t)
	p := serve(t, "--limit", "gcra 1000000/s", "--upstream", u.url, "--listen", freeAddress(t), "--drain", testTimeout.String())
	l := startLoad(connections, 0, time.Millisecond, func(int, int) *http.Request { return newRequest(p.proxy) })
	u.await(t, 10*connections)
	release := u.holdBack(t, connections/2)
	p.signal(syscall.SIGTERM)
	p.waitForLog("shutting down")
	release()
	require.Zero(t, p.exitCode())
	p.waitForLog("cut=false")
	l.stop()

	l.requireOnly(t, http.StatusOK)
	require.Equal(t, u.admitted(), l.statuses[http.StatusOK])
	for _, failure := range l.failures {
		require.Regexp(t, connectionErrors, failure.Error())
	}
}
