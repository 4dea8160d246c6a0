package servetest

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
)

// timeout is the --decision-timeout of these tests. slack is how much later a response may come on a busy
// machine.
const (
	timeout = 250 * time.Millisecond
	slack   = time.Second
)

// database is a server that the test can stop and start.
type database interface {
	Stop()
	Start() error
}

// duringOutage has what a program does with 4 requests of a client that may send 3 a day.
var duringOutage = map[string]struct {
	statuses []int
	admitted int64
	ready    int
}{
	"closed": {[]int{503, 503, 503, 503}, 0, 503},
	"open":   {[]int{200, 200, 200, 200}, 4, 200},
	"local":  {[]int{200, 200, 200, 429}, 3, 200}, // starting with nothing used
}

// TestOutage stops the store of programs that allow each client 3 requests a day. For each --on-failure
// there is one program, and the client of the same name.
func TestOutage(t *testing.T) {
	for name, startStore := range map[string]func(*testing.T) (database, string){
		"redis": func(t *testing.T) (database, string) {
			s := servers.Redis(t, "appendonly yes")
			return s, "redis://" + s.Addr()
		},
		"postgres": func(t *testing.T) (database, string) {
			s := servers.Postgres(t)
			return s, s.DSN()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, store := startStore(t)
			other := newProgramWithPolicy(t, store, "closed") // with the long --decision-timeout
			var programs []*programWithPolicy
			for policy := range duringOutage {
				p := newProgramWithPolicy(t, store, policy, "--decision-timeout", timeout.String())
				programs = append(programs, p)
				require.Equal(t, http.StatusOK, other.request(policy).StatusCode)
				p.requireLeft(2)
			}
			server.Stop()
			for _, p := range programs {
				p.requireOutage()
			}
			require.NoError(t, server.Start())
			for _, p := range programs {
				p.requireLeft(2) // nothing was charged during the outage
				p.requireReady(http.StatusOK)
				require.Equal(t, http.StatusOK, other.request(p.policy).StatusCode)
				require.Eventually(t, func() bool {
					p.request(p.policy)
					left, degraded := other.left(p.policy)
					return !degraded && left == 0
				}, testTimeout, 10*time.Millisecond, "the third request of the day is charged to the store")
			}
		})
	}
}

// programWithPolicy is a program with a failure policy. Its client has the name of that policy.
type programWithPolicy struct {
	*program
	upstream *upstream
	policy   string
}

func newProgramWithPolicy(t *testing.T, store, policy string, args ...string) *programWithPolicy {
	u := newUpstream(t)
	return &programWithPolicy{serve(t, append(args, "--limit", "fixedwindow 3/24h", "--by", "header:X-Client",
		"--upstream", u.url, "--store", store, "--on-failure", policy)...), u, policy}
}

func (p *programWithPolicy) request(client string) answer {
	p.t.Helper()
	return send(p.t, p.proxy, "", "X-Client", client)
}

// requireOutage requires the responses of the failure policy. One without a decision does not look like a denial.
func (p *programWithPolicy) requireOutage() {
	p.t.Helper()
	want := duringOutage[p.policy]
	for _, status := range want.statuses {
		began := time.Now()
		a := p.request(p.policy)
		require.Less(p.t, time.Since(began), timeout+slack, p.policy)
		require.Equal(p.t, status, a.StatusCode, p.policy)
		if p.policy == "local" {
			continue
		}
		require.NotContains(p.t, a.Header, "Ratelimit", "the quota is unknown")
		require.NotContains(p.t, a.Header, "Ratelimit-Policy")
		require.Equal(p.t, map[string]string{"closed": "5", "open": ""}[p.policy], a.Header.Get("Retry-After"))
		if p.policy == "closed" {
			require.Equal(p.t, "application/problem+json", a.Header.Get("Content-Type"))
			require.Equal(p.t, `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",`+
				`"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503}`+"\n", a.text)
		}
	}
	require.Equal(p.t, want.admitted, p.upstream.admitted())
	p.requireReady(want.ready)
}

// requireReady waits until /readyz has a status. /readyz reports the last probe.
func (p *programWithPolicy) requireReady(status int) {
	p.t.Helper()
	require.Equal(p.t, http.StatusOK, get(p.t, p.api+"/livez"))
	require.Eventually(p.t, func() bool { return get(p.t, p.api+"/readyz") == status }, testTimeout, 10*time.Millisecond)
}

// requireLeft waits until the store decides and a number of requests remains for the client of the program.
func (p *programWithPolicy) requireLeft(want int) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		left, degraded := p.left(p.policy)
		return !degraded && left == want
	}, testTimeout, 10*time.Millisecond)
}

// left returns how many requests remain for a client. degraded means that the store did not decide.
func (p *programWithPolicy) left(client string) (left int, degraded bool) {
	p.t.Helper()
	a := send(p.t, p.api+"/v1/peek", `{"key":"`+client+`"}`)
	if a.StatusCode != http.StatusOK {
		return 0, true
	}
	var decision struct {
		Remaining int
		Degraded  bool
	}
	require.NoError(p.t, json.Unmarshal([]byte(a.text), &decision))
	return decision.Remaining, decision.Degraded
}
