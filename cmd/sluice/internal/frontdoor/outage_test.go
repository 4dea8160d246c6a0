package frontdoor

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/servers"
)

// timeout is the time that a decision may take in these tests, and slack by how much an
// answer on a busy machine may come later. curl takes a part of that.
const (
	timeout = 250 * time.Millisecond
	slack   = time.Second
)

// database is one that can be had or not.
type database interface {
	Stop()
	Start() error
}

// TestOutage stops the store under programs that allow each client 3 requests a day,
// and asks them with curl.
func TestOutage(t *testing.T) {
	for name, begin := range map[string]func(*testing.T) (database, string){
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
			server, store := begin(t)
			patient := newDoor(t, store, "closed")
			var doors []*programWithPolicy
			for _, policy := range [...]string{"closed", "open", "local"} {
				doors = append(doors, newDoor(t, store, policy, "--decision-timeout", timeout.String()))
				patient.requireAdmitted(policy, 2)
				doors[len(doors)-1].requireRecovery()
			}
			server.Stop()
			for _, d := range doors {
				d.requireOutage()
				d.requireReady(map[string]int{"closed": 503, "open": 200, "local": 200}[d.policy])
			}
			require.NoError(t, server.Start())
			for _, d := range doors {
				d.requireRecovery()
				d.requireReady(http.StatusOK)
				patient.requireAdmitted(d.policy, 1)
				require.Eventually(t, func() bool {
					d.request()
					left, degraded := patient.left(d.policy)
					return !degraded && left == 0
				}, testTimeout, time.Millisecond, "the third of the day is paid like those before")
			}
		})
	}
}

// A door is a program that goes on in its own way when the store fails. The client
// who comes to it has the name of that way.
type programWithPolicy struct {
	*program
	upstream *upstream
	policy   string
}

func newDoor(t *testing.T, store, policy string, args ...string) *programWithPolicy {
	u := newUpstream(t)
	return &programWithPolicy{serve(t, append(args, "--limit", "fixedwindow 3/24h", "--by", "header:X-Client",
		"--upstream", u.url, "--store", store, "--on-failure", policy)...), u, policy}
}

// requestAs is one request by a client.
func (d *programWithPolicy) requestAs(client string) answer {
	d.t.Helper()
	return curl(d.t, "-H", "X-Client: "+client, d.proxy)
}

func (d *programWithPolicy) request() answer {
	d.t.Helper()
	return d.requestAs(d.policy)
}

func (d *programWithPolicy) requireAdmitted(client string, left int) {
	d.t.Helper()
	a := d.requestAs(client)
	require.Equal(d.t, http.StatusOK, a.StatusCode, a.text)
	require.Contains(d.t, a.Header.Get("RateLimit"), map[int]string{2: `"default";r=2;`, 1: `"default";r=1;`}[left])
}

// requireOutage requires what the door makes of it.
func (d *programWithPolicy) requireOutage() {
	d.t.Helper()
	var statuses []int
	for range 4 {
		began := time.Now()
		a := d.request()
		require.Less(d.t, time.Since(began), timeout+slack, d.policy)
		statuses = append(statuses, a.StatusCode)
		switch d.policy {
		case "closed":
			requireUnavailable(d.t, a)
		case "open":
			requireUntold(d.t, a)
			require.NotContains(d.t, a.Header, "Retry-After")
		}
	}
	require.Equal(d.t, map[string][]int{
		"closed": {503, 503, 503, 503},
		"open":   {200, 200, 200, 200},
		"local":  {200, 200, 200, 429}, // from nothing used
	}[d.policy], statuses)
	require.Equal(d.t, map[string]int64{"closed": 0, "open": 4, "local": 3}[d.policy], d.upstream.admitted())
}

// requireUntold requires that a response has no fields of limits that nobody could read.
func requireUntold(t *testing.T, a answer) {
	t.Helper()
	for _, field := range [...]string{"RateLimit", "RateLimit-Policy"} {
		require.NotContains(t, a.Header, http.CanonicalHeaderKey(field))
	}
}

// requireUnavailable requires that a refusal does not pass for a denial.
func requireUnavailable(t *testing.T, a answer) {
	t.Helper()
	requireUntold(t, a)
	require.Equal(t, "5", a.Header.Get("Retry-After"))
	require.Equal(t, "application/problem+json", a.Header.Get("Content-Type"))
	require.Equal(t, blocks(t, "json")[0], a.text)
}

// requireReady waits until /readyz, which goes by the last probe, has a status.
func (d *programWithPolicy) requireReady(status int) {
	d.t.Helper()
	require.Equal(d.t, http.StatusOK, curl(d.t, d.api+"/livez").StatusCode)
	require.Eventually(d.t, func() bool { return curl(d.t, d.api+"/readyz").StatusCode == status }, testTimeout, 10*time.Millisecond)
}

// requireRecovery waits until the door knows the store again, and requires that it
// has 2 left for its client: nothing was paid during the outage.
func (d *programWithPolicy) requireRecovery() {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		left, degraded := d.left(d.policy)
		return !degraded && left == 2
	}, testTimeout, 10*time.Millisecond)
}

// left is what the store has left for a client, unless it is not the store who tells.
func (d *programWithPolicy) left(client string) (left int, degraded bool) {
	d.t.Helper()
	a := curl(d.t, d.api+"/v1/peek", "-d", `{"key":"`+client+`"}`)
	if a.StatusCode != http.StatusOK {
		return 0, true
	}
	var told struct {
		Remaining int
		Degraded  bool
	}
	require.NoError(d.t, json.Unmarshal([]byte(a.text), &told))
	return told.Remaining, told.Degraded
}
