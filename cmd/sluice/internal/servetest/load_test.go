package servetest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/testing/servers"
)

func policyOf(t *testing.T, spec string) algo.Policy {
	t.Helper()
	p, err := compose.ParsePolicy(spec)
	require.NoError(t, err)
	return p
}

// TestFiftyThousandRequests sends the requests over 64 connections. Meanwhile requests with new keys
// fill the store, so that it must evict keys.
func TestFiftyThousandRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out slow tests")
	}
	const connections, each, maxKeys, spec = 64, 800, 300, "gcra 30000/m burst=2000"
	u := newUpstream(t)
	p := serve(t, "--limit", spec, "--by", "header:X-Client", "--upstream", u.url, "--max-keys", fmt.Sprint(maxKeys))
	began := time.Now()
	others := startLoad(2, 0, 0, func(connection, n int) *http.Request {
		r, _ := http.NewRequest(http.MethodPost, p.api+"/v1/allow", strings.NewReader(fmt.Sprintf(`{"key":"%d of %d"}`, n, connection)))
		return r
	})
	l := startLoad(connections, each, 0, func(int, int) *http.Request {
		r := newRequest(p.proxy + "/")
		r.Header.Set("X-Client", "one")
		return r
	})
	sizes := p.sizesUntil(l.ended())
	took := time.Since(began)
	others.stop()
	keys := others.statuses[http.StatusOK]
	t.Logf("%v: %v, and %d new keys; memory %v KiB", took.Round(time.Millisecond), l.statuses, keys, sizes)

	require.Empty(t, append(l.failures, others.failures...))
	l.requireOnly(t, http.StatusOK, http.StatusTooManyRequests)
	require.EqualValues(t, connections*each, l.statuses[http.StatusOK]+l.statuses[http.StatusTooManyRequests])
	require.Equal(t, u.admitted(), l.statuses[http.StatusOK])
	policy := policyOf(t, spec)
	require.LessOrEqual(t, u.admitted(), policy.Bound(took))
	// The load uses every refill, unless it pauses for the 4 s in which the whole burst refills.
	require.Greater(t, u.admitted(), policy.Bound(u.span())*3/4)

	others.requireOnly(t, http.StatusOK)
	require.Greater(t, keys, int64(2*maxKeys))
	const store = "sluice_memory_store_"
	require.EqualValues(t, maxKeys, p.metric(store+"keys"))
	require.GreaterOrEqual(t, p.metric(store+"evictions_total")+p.metric(store+"expirations_total"), float64(keys-maxKeys))
	requireFlat(t, sizes)
}

// metric returns the sum of a metric over all its labels. A missing metric fails the test.
func (p *program) metric(name string) (sum float64) {
	p.t.Helper()
	text := send(p.t, p.api+"/metrics", "").text
	found := regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? (\S+)$`).FindAllStringSubmatch(text, -1)
	require.NotEmpty(p.t, found, "%s has no %s:\n%s", p.api, name, text)
	for _, m := range found {
		value, err := strconv.ParseFloat(m[1], 64)
		require.NoError(p.t, err)
		sum += value
	}
	return sum
}

// requireFlat requires that the largest size in the second half of a run is at most a margin above that in the first half. The
// margin is how much the memory may differ from one garbage collection to the next.
func requireFlat(t *testing.T, sizes []int) {
	t.Helper()
	const margin = 4 << 10 // KiB
	require.Greater(t, len(sizes), 4)
	require.NotContains(t, sizes, 0, "the size of the program is unknown; this test reads VmRSS in /proc/PID/status, as on Linux")
	half := len(sizes) / 2
	require.LessOrEqual(t, slices.Max(sizes[half:]), slices.Max(sizes[:half])+margin, "KiB: %v", sizes)
}

// sizesUntil returns the program's resident memory in KiB, four times a second until done is closed. An unknown size is 0.
func (p *program) sizesUntil(done <-chan struct{}) (sizes []int) {
	ticks := time.NewTicker(250 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case <-done:
			return sizes
		case <-ticks.C:
			size := 0
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
			if m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text); m != nil {
				size, _ = strconv.Atoi(string(m[1]))
			}
			sizes = append(sizes, size)
		}
	}
}

// TestReloadUnderLoad raises and lowers a limit under load. No request fails, and quota that was used stays
// used.
func TestReloadUnderLoad(t *testing.T) {
	for _, store := range [...]string{"memory:", "sqlite:" + filepath.Join(t.TempDir(), "limits.db")} {
		u := newUpstream(t)
		limits := filepath.Join(t.TempDir(), "limits.yaml")
		write := func(text string) { require.NoError(t, os.WriteFile(limits, []byte(text), 0o600)) }
		allow := func(count int) {
			write(fmt.Sprintf("rules: [{name: daily, policy: fixedwindow %d/24h, by: ip}]\n", count))
		}
		allow(100)
		p := serve(t, "--config", limits, "--upstream", u.url, "--store", store)
		l := steadyLoad(p.proxy + "/")
		u.await(t, 100)
		for i, count := range [...]int{300, 200, 400} {
			allow(count)
			p.signal(syscall.SIGHUP)
			p.waitForLogTimes("msg=reloaded", i+1)
			u.await(t, int64(count)) // already reached if the limit was lowered
			require.Equal(t, http.StatusTooManyRequests, get(t, p.proxy))
		}
		write("rules: none\n")
		p.signal(syscall.SIGHUP)
		p.waitForLog("the old rules stay")
		require.Equal(t, http.StatusTooManyRequests, get(t, p.proxy))
		l.stop()

		require.Empty(t, l.failures)
		l.requireOnly(t, http.StatusOK, http.StatusTooManyRequests)
		require.EqualValues(t, 400, l.statuses[http.StatusOK])
		require.EqualValues(t, 400, u.admitted())
	}
}

// TestQuotaSurvivesAKill: the program is killed under load. If it lost its states, another burst
// would be admitted.
func TestQuotaSurvivesAKill(t *testing.T) {
	for name, store := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "limits.db") },
		"postgres": func(t *testing.T) string { return servers.Postgres(t).DSN() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const spec, burst, lives = "gcra 300/m burst=200", 200, 3
			u, address := newUpstream(t), freeAddress(t)
			args := []string{"--limit", spec, "--upstream", u.url, "--listen", address, "--store", store(t)}
			began := time.Now()
			p := serve(t, args...)
			l := steadyLoad(p.proxy + "/")
			u.await(t, burst)
			for range lives - 1 {
				before := u.admitted()
				p.kill()
				p = serve(t, args...)
				for range burst { // in addition to those of the load
					require.Contains(t, []int{http.StatusOK, http.StatusTooManyRequests}, get(t, p.proxy))
				}
				u.await(t, before+3) // it still admits
			}
			l.stop()
			took := time.Since(began)
			t.Logf("%v: admitted %d, %v", took.Round(time.Millisecond), u.admitted(), l.statuses)

			l.requireOnly(t, http.StatusOK, http.StatusTooManyRequests)
			for _, failure := range l.failures {
				require.Regexp(t, connectionErrors, failure.Error())
			}
			require.LessOrEqual(t, u.admitted(), policyOf(t, spec).Bound(took))
		})
	}
}

// connectionErrors matches the errors of requests while the program is down or is killed.
var connectionErrors = regexp.MustCompile(`connection refused|connection reset by peer|broken pipe|EOF$`)

// TestSocketAndProxyShareQuota: requests over a unix socket read, refund, charge and reset what
// the proxy counted.
func TestSocketAndProxyShareQuota(t *testing.T) {
	dir, err := os.MkdirTemp("", "sluice") // t.TempDir may be too long for a socket
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "sluice.sock")
	p := serve(t, "--limit", "fixedwindow 10/24h", "--by", "ip", "--upstream", newUpstream(t).url, "--api", "unix:"+socket)
	left := func() string { return send(t, p.proxy, "").Header.Get("RateLimit") }
	ask := func(body, op string) string {
		a := sendOver(t, socket, "http://sluice/v1/"+op, body)
		require.Contains(t, []int{http.StatusOK, http.StatusNoContent}, a.StatusCode, a.text)
		return a.text
	}

	require.Contains(t, left(), `"default";r=9;`)
	require.Contains(t, ask(`{"key":"127.0.0.1"}`, "peek"), `"remaining":9,`)
	require.Contains(t, ask(`{"key":"127.0.0.1","cost":3,"rule":"default"}`, "allow"), `"allowed":true,"rule":"default","remaining":6,`)
	require.Contains(t, left(), `"default";r=5;`)
	ask(`{"key":"127.0.0.1","cost":2,"rule":"default"}`, "refund")
	require.Contains(t, left(), `"default";r=6;`)
	ask(`{"key":"127.0.0.1","cost":6}`, "charge")
	require.Equal(t, http.StatusTooManyRequests, get(t, p.proxy))
	require.Contains(t, ask(`{"key":"127.0.0.1"}`, "allow"), `"allowed":false,"rule":"default","remaining":0,`)
	ask(`{"key":"127.0.0.1"}`, "reset")
	require.Contains(t, left(), `"default";r=9;`)
}
