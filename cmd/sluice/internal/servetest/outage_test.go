package servetest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
)

// timeout is the --decision-timeout of these tests. slack is how much later a response may come on a busy
// machine. It includes the time of curl.
const (
	timeout = 250 * time.Millisecond
	slack   = time.Second
)

// database is a server that the test can stop and start.
type database interface {
	Stop()
	Start() error
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
			for _, policy := range [...]string{"closed", "open", "local"} {
				programs = append(programs, newProgramWithPolicy(t, store, policy, "--decision-timeout", timeout.String()))
				other.requireAdmitted(policy, 2)
				programs[len(programs)-1].requireRecovery()
			}
			server.Stop()
			for _, p := range programs {
				p.requireOutage()
				p.requireReady(map[string]int{"closed": 503, "open": 200, "local": 200}[p.policy])
			}
			require.NoError(t, server.Start())
			for _, p := range programs {
				p.requireRecovery()
				p.requireReady(http.StatusOK)
				other.requireAdmitted(p.policy, 1)
				require.Eventually(t, func() bool {
					p.request()
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

// requestAs sends a request of a client.
func (p *programWithPolicy) requestAs(client string) answer {
	p.t.Helper()
	return curl(p.t, "-H", "X-Client: "+client, p.proxy)
}

func (p *programWithPolicy) request() answer {
	p.t.Helper()
	return p.requestAs(p.policy)
}

func (p *programWithPolicy) requireAdmitted(client string, left int) {
	p.t.Helper()
	a := p.requestAs(client)
	require.Equal(p.t, http.StatusOK, a.StatusCode, a.text)
	require.Contains(p.t, a.Header.Get("RateLimit"), map[int]string{2: `"default";r=2;`, 1: `"default";r=1;`}[left])
}

// requireOutage requires the responses of the failure policy.
func (p *programWithPolicy) requireOutage() {
	p.t.Helper()
	var statuses []int
	for range 4 {
		began := time.Now()
		a := p.request()
		require.Less(p.t, time.Since(began), timeout+slack, p.policy)
		statuses = append(statuses, a.StatusCode)
		switch p.policy {
		case "closed":
			requireUnavailable(p.t, a)
		case "open":
			requireNoLimitFields(p.t, a)
			require.NotContains(p.t, a.Header, "Retry-After")
		}
	}
	require.Equal(p.t, map[string][]int{
		"closed": {503, 503, 503, 503},
		"open":   {200, 200, 200, 200},
		"local":  {200, 200, 200, 429}, // starting with nothing used
	}[p.policy], statuses)
	require.Equal(p.t, map[string]int64{"closed": 0, "open": 4, "local": 3}[p.policy], p.upstream.admitted())
}

// requireNoLimitFields requires that a response has no RateLimit fields, because the quota is unknown.
func requireNoLimitFields(t *testing.T, a answer) {
	t.Helper()
	for _, field := range [...]string{"RateLimit", "RateLimit-Policy"} {
		require.NotContains(t, a.Header, http.CanonicalHeaderKey(field))
	}
}

// requireUnavailable requires that a response without a decision does not look like a denial.
func requireUnavailable(t *testing.T, a answer) {
	t.Helper()
	requireNoLimitFields(t, a)
	require.Equal(t, "5", a.Header.Get("Retry-After"))
	require.Equal(t, "application/problem+json", a.Header.Get("Content-Type"))
	require.Equal(t, `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",`+
		`"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503}`+"\n", a.text)
}

// requireReady waits until /readyz has a status. /readyz reports the last probe.
func (p *programWithPolicy) requireReady(status int) {
	p.t.Helper()
	require.Equal(p.t, http.StatusOK, get(p.t, p.api+"/livez"))
	require.Eventually(p.t, func() bool { return get(p.t, p.api+"/readyz") == status }, testTimeout, 10*time.Millisecond)
}

// requireRecovery waits until the program uses the store again and 2 requests remain for its client:
// nothing was charged during the outage.
func (p *programWithPolicy) requireRecovery() {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		left, degraded := p.left(p.policy)
		return !degraded && left == 2
	}, testTimeout, 10*time.Millisecond)
}

// left returns how many requests remain for a client. degraded means that the store did not decide.
func (p *programWithPolicy) left(client string) (left int, degraded bool) {
	p.t.Helper()
	response, err := (&http.Client{Timeout: testTimeout}).Post(p.api+"/v1/peek", "application/json", strings.NewReader(`{"key":"`+client+`"}`))
	require.NoError(p.t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, true
	}
	var decision struct {
		Remaining int
		Degraded  bool
	}
	require.NoError(p.t, json.NewDecoder(response.Body).Decode(&decision))
	return decision.Remaining, decision.Degraded
}
