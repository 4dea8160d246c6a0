package serve

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// everyKind has a rule of each kind of policy.
const everyKind = `
rules:
  - {name: a, policy: gcra 3/d, by: ip}
  - {name: b, policy: tokenbucket 3/d, by: ip}
  - {name: c, policy: fixedwindow 3/d, by: ip}
  - {name: d, policy: movingwindow 3/d, by: ip}
  - {name: e, policy: all(gcra 3/d; fixedwindow 5/d), by: ip}
  - {name: f, policy: inflight 3 ttl=24h, by: ip}
  - {name: g, policy: calendar 3/day tz=Europe/Berlin, by: ip}
  - {name: h, policy: all(gcra 3/d; calendar 5/month), by: ip}
  - {name: i, policy: penalty(gcra 3/d; for=1h), by: ip}
`

// database is a schema of PostgreSQL, and a role that may use the table in it but does not own it.
type database struct {
	t     *testing.T
	owner *pgx.Conn
	role  string
	dsn   string // of the role
}

// newDatabase returns a database whose owner has made the table and the functions of sluice serve.
func newDatabase(t *testing.T) *database {
	t.Helper()
	owned, role := newSchema(t), schemaOf(t)+"_role"
	d := &database{t: t, role: role}
	var err error
	d.owner, err = pgx.Connect(t.Context(), owned)
	require.NoError(t, err)
	t.Cleanup(func() { d.owner.Close(context.Background()) })
	store, err := stores.Open(owned, stores.Options{})
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, store.Prepare(t.Context()))
	d.exec("CREATE ROLE %s LOGIN; GRANT USAGE ON SCHEMA %s TO %[1]s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[2]s TO %[1]s", role, schemaOf(t))
	u, err := url.Parse(owned)
	require.NoError(t, err)
	u.User = url.User(role)
	d.dsn = u.String()
	return d
}

// exec runs a statement as the owner.
func (d *database) exec(format string, args ...any) {
	d.t.Helper()
	_, err := d.owner.Exec(d.t.Context(), fmt.Sprintf(format, args...))
	require.NoError(d.t, err)
}

// functions returns the functions that PostgreSQL has, with their parameters.
func (d *database) functions() (names []string) {
	d.t.Helper()
	rows, err := d.owner.Query(d.t.Context(), "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = current_schema()::regnamespace ORDER BY 1")
	require.NoError(d.t, err)
	names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(d.t, err)
	require.NotEmpty(d.t, names)
	return names
}

// readyNow probes the store at once, and returns the status of /readyz.
func (w *testServer) readyNow() int {
	w.t.Helper()
	w.checkStore(w.t.Context())
	response := httptest.NewRecorder()
	w.ready(response, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	return response.Code
}

// TestNoFunctionIsUsedThatTheProbeDoesNotCall: the server is not ready if it may not execute a function that
// decisions call.
func TestNoFunctionIsUsedThatTheProbeDoesNotCall(t *testing.T) {
	d := newDatabase(t)
	w, err := newTestServer(t, everyKind, on(d.dsn), withUpstream(t, hello))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, w.readyNow(), w.logged.String())
	for i, function := range d.functions() {
		d.exec("REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC", function)
		require.Equal(t, http.StatusServiceUnavailable, w.readyNow(), function)
		require.ErrorContains(t, *w.health.Load(), "permission denied for function", function)
		if i == 0 {
			_, err := newTestServer(t, everyKind, on(d.dsn), withUpstream(t, hello))
			require.ErrorContains(t, err, "the store makes no decisions: storage: nothing was applied: postgres: ERROR: permission denied for function", function)
			require.ErrorContains(t, err, "; check the rights of the user in the store", function)
		}
		d.exec("GRANT EXECUTE ON FUNCTION %s TO PUBLIC", function)
		require.Equal(t, http.StatusOK, w.readyNow(), function)
	}
	without, err := newTestServer(t, oneByIP, on(d.dsn), func(o *Options) { o.NoFunctions, o.Namespace = true, "without" })
	require.NoError(t, err)
	for _, function := range d.functions() {
		d.exec("DROP FUNCTION %s CASCADE", function)
	}
	require.Equal(t, http.StatusServiceUnavailable, w.readyNow())
	require.Equal(t, http.StatusOK, without.readyNow(), "--no-functions")
}

// TestReloadRefusesAPolicyThatTheStoreCannotRun: the old rules stay in force, and the name can get another
// algorithm.
func TestReloadRefusesAPolicyThatTheStoreCannotRun(t *testing.T) {
	d := newDatabase(t)
	w := startTestServer(t, oneByIP, on(d.dsn), withUpstream(t, hello))
	for _, function := range d.functions() {
		if strings.Contains(function, "movingwindow") {
			d.exec("DROP FUNCTION %s", function)
		}
	}
	added := oneByIP + "  - {name: added, policy: movingwindow 3/h, by: ip}\n"
	w.rules.Store(added)
	require.ErrorContains(t, w.Reload(t.Context()), "the store makes no decisions: storage: nothing was applied: postgres: ERROR: function")
	require.Contains(t, w.logged.String(), "reload failed; the old rules stay in force")
	require.Equal(t, http.StatusOK, w.readyNow())
	require.Equal(t, 1, w.allowed(1))
	w.rules.Store(strings.ReplaceAll(added, "movingwindow", "fixedwindow"))
	require.NoError(t, w.Reload(t.Context()))
	require.Equal(t, 2, w.allowed(3))
}

// TestReloadWhileTheStoreIsDown: the new rules apply when the store works again.
func TestReloadWhileTheStoreIsDown(t *testing.T) {
	redis := servers.Redis(t)
	w := startTestServer(t, oneByIP, on("redis://"+redis.Addr()), withUpstream(t, hello))
	redis.Kill()
	w.rules.Store(strings.ReplaceAll(oneByIP, "3/h", "2/h"))
	require.NoError(t, w.Reload(t.Context()))
	require.NoError(t, redis.Start())
	require.Eventually(t, func() bool { return w.readyNow() == http.StatusOK }, testTimeout, 10*time.Millisecond)
	require.Equal(t, 2, w.allowed(3))
}

// TestUnreadableStateOfAllRequests: if all requests share one limit whose state cannot be read, no request
// gets a decision under any --on-failure.
func TestUnreadableStateOfAllRequests(t *testing.T) {
	shared := "rules: [{name: all, policy: gcra 3/h}, {name: client, policy: gcra 3/h, by: ip}]"
	store := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	for _, policy := range []sluice.FailurePolicy{sluice.FailClosed, sluice.FailOpen} {
		w, err := newTestServer(t, shared, on(store), onFailure(policy))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, w.readyNow(), w.logged.String())
		_, err = w.current.Load().service.Allow(t.Context(), decisionRequest{Key: "k"})
		require.NoError(t, err)
		key := keyText("all", "")
		found, _, err := w.store.Load(t.Context(), key)
		require.NoError(t, err)
		state := append([]byte{}, found[0].State...)
		state[1]++ // the version of the format
		_, swapped, err := w.store.CompareAndSwap(t.Context(), storage.Swap{Key: key, Old: found[0].Version, New: storage.Record{Version: storage.NewVersion(), State: state}})
		require.NoError(t, err)
		require.True(t, swapped)

		require.Equal(t, http.StatusServiceUnavailable, w.readyNow(), w.logged.String())
		require.Contains(t, w.logged.String(), "state has a newer format")
		_, err = newTestServer(t, shared, on(store), onFailure(policy))
		require.ErrorContains(t, err, "state has a newer format")
		require.ErrorContains(t, err, "reset the key, give the rule a new name, or start with another --namespace")
		require.NoError(t, w.current.Load().service.Reset(t.Context(), decisionRequest{Key: "k"}))
		require.Equal(t, http.StatusOK, w.readyNow(), w.logged.String())
	}
}

// TestProbesLeaveNothing: their records expire soon, whatever the policies are, they share no key with a
// client, and no metric counts them.
func TestProbesLeaveNothing(t *testing.T) {
	redis := servers.Redis(t)
	w := startTestServer(t, everyKind, on("redis://"+redis.Addr()), withUpstream(t, hello))
	for range 3 {
		require.Equal(t, http.StatusOK, w.readyNow(), w.logged.String())
	}
	keys, err := redis.Do("KEYS", "*")
	require.NoError(t, err)
	probes := 0
	for key := range strings.SplitSeq(keys, "\n") {
		probes++
		require.Contains(t, key, "probe")
		ttl, err := redis.Do("PTTL", key)
		require.NoError(t, err)
		ms, err := strconv.Atoi(ttl)
		require.NoError(t, err)
		require.Positive(t, ms, key)
		require.LessOrEqual(t, ms, int(time.Minute.Milliseconds()), key)
	}
	require.Greater(t, probes, 3)
	metrics := fetch(t, w.apiURL("/metrics")).body
	require.NotContains(t, metrics, "sluice_decisions_total{")
	require.NotContains(t, metrics, "probe")
}

// oneKey is a store that changes only one key at a time, such as a node of a cluster.
type oneKey struct{ storage.Store }

func (s oneKey) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if len(swaps) > 1 {
		return nil, false, storage.ErrKey
	}
	return s.Store.CompareAndSwap(ctx, swaps...)
}

// TestOnlyRulesThatApplyTogetherAreProbedTogether: a store that changes one key at a time is enough for others.
func TestOnlyRulesThatApplyTogetherAreProbedTogether(t *testing.T) {
	for rules, want := range map[string]error{
		oneByIP: nil,
		"rules: [{name: a, policy: gcra 1/s, paths: [/a]}, {name: b, policy: fixedwindow 1/s, by: ip, paths: [/b]}, {name: c, policy: gcra 1/s, methods: [GET]}]": nil,
		"rules: [{name: a, policy: gcra 1/s}, {name: b, policy: gcra 9/m, by: ip}]":                                                                               storage.ErrKey,
		"rules: [{name: a, policy: gcra 1/s, by: ip}, {name: b, policy: fixedwindow 9/m, by: ip}]":                                                                storage.ErrKey,
	} {
		s := &Server{store: &stores.Store{Store: oneKey{new(memory.Store)}}}
		probe, err := s.newDecisionProbe(&config.File{Rules: apiRules(t, rules)})
		require.NoError(t, err)
		require.ErrorIs(t, probe.decide(t.Context()), want, rules)
	}
}
