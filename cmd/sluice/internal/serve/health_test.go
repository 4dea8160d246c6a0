package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/sluicetest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// newProbedServer returns a server of which only the probes of the store run.
func newProbedServer(t *testing.T, store storage.Store, policy sluice.FailurePolicy) *Server {
	s := &Server{log: slog.New(slog.DiscardHandler), sampled: sampledTo(io.Discard), store: &stores.Store{Store: store}, options: Options{OnFailure: policy}}
	s.health.Store(new(error))
	probe, err := s.newDecisionProbe(&config.File{Rules: apiRules(t, oneByIP)})
	require.NoError(t, err)
	s.current.Store(&limiters{probe: probe})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go every(ctx, probeEvery, s.checkStore)
	return s
}

// readiness returns the status of /readyz and what it reports about the store. It requires that /livez and
// /readyz answer at once.
func (s *Server) readiness(t *testing.T) string {
	t.Helper()
	began := time.Now()
	w := httptest.NewRecorder()
	live(w, httptest.NewRequest(http.MethodGet, "/livez", nil))
	require.Equal(t, http.StatusOK, w.Code, "/livez does not depend on the store")
	w = httptest.NewRecorder()
	s.ready(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	var body struct{ Store string }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	require.Zero(t, time.Since(began))
	return fmt.Sprint(w.Code, " ", body.Store)
}

// TestHealthDoesNotWaitForTheStore: the store hangs, fails and recovers.
func TestHealthDoesNotWaitForTheStore(t *testing.T) {
	for policy, down := range map[sluice.FailurePolicy]string{sluice.FailClosed: "503 ", sluice.FailOpen: "200 failed", sluice.FailLocal: "200 failed"} {
		synctest.Test(t, func(t *testing.T) {
			store := new(sluicetest.Store)
			store.Hang()
			s := newProbedServer(t, store, policy)
			time.Sleep(probeEvery + probeTime - time.Millisecond)
			require.Equal(t, "200 ok", s.readiness(t))
			for _, c := range []struct {
				change func()
				want   string
			}{{store.Hang, down}, {func() { store.Fail(errors.New("read-only")) }, down}, {store.Recover, "200 ok"}} {
				c.change()
				time.Sleep(probeEvery + probeTime)
				require.Equal(t, c.want, s.readiness(t))
			}
		})
	}
}

// stoppedStores are stores that cannot be reached until start is called.
var stoppedStores = map[string]func(t *testing.T) (address string, start func()){
	"redis": func(t *testing.T) (string, func()) {
		s := servers.Redis(t)
		s.Stop()
		return "redis://" + s.Addr(), func() { require.NoError(t, s.Start()) }
	},
	"postgres": func(t *testing.T) (string, func()) {
		s := servers.Postgres(t)
		s.Stop()
		return s.DSN(), func() { require.NoError(t, s.Start()) }
	},
	"sqlite": func(t *testing.T) (string, func()) {
		dir := filepath.Join(t.TempDir(), "mounted-later")
		return "sqlite:" + filepath.Join(dir, "limits.db"), func() { require.NoError(t, os.Mkdir(dir, 0o700)) }
	},
}

// TestStartWithoutTheStore: the failure policy decides until the store is available. Then the store does.
func TestStartWithoutTheStore(t *testing.T) {
	skipIfShort(t)
	for _, c := range []struct {
		store   string
		policy  sluice.FailurePolicy
		allowed int
	}{
		{"sqlite", sluice.FailOpen, 5},
		{"redis", sluice.FailLocal, 3},
		{"postgres", sluice.FailLocal, 3},
	} {
		t.Run(fmt.Sprint(c.store, c.policy), func(t *testing.T) {
			t.Parallel()
			address, start := stoppedStores[c.store](t)
			w := startTestServer(t, oneByIP, on(address), withUpstream(t, hello), onFailure(c.policy))
			require.Contains(t, w.logged.String(), "the store is unavailable; until it is available, --on-failure decides")
			require.Equal(t, c.allowed, w.allowed(5))
			require.Equal(t, readyWithout, fetch(t, w.apiURL("/readyz")).body)
			start()
			require.Eventually(t, func() bool { return fetch(t, w.apiURL("/readyz")).body == readyWith }, testTimeout, 10*time.Millisecond)
			require.Contains(t, w.logged.String(), "the store is available again")
			require.Equal(t, 3, w.allowed(5), "nothing was used in the store before")
			require.NotContains(t, w.logged.String(), "no such table")
			require.NotContains(t, w.logged.String(), "does not exist")

			another := startTestServer(t, oneByIP, on(address), withUpstream(t, hello))
			require.Equal(t, 0, another.allowed(2), "the quota was used in the store")
		})
	}
}

func onFailure(policy sluice.FailurePolicy) func(*Options) {
	return func(o *Options) { o.OnFailure = policy }
}

// TestReloadWithoutTheStore: the reloaded rules apply when the store is available.
func TestReloadWithoutTheStore(t *testing.T) {
	skipIfShort(t)
	address, start := stoppedStores["sqlite"](t)
	w := startTestServer(t, oneByIP, on(address), withUpstream(t, hello), onFailure(sluice.FailLocal))
	for _, policy := range []string{"fixedwindow 2/h", "gcra 4/h"} {
		w.rules.Store(strings.ReplaceAll(oneByIP, "gcra 3/h", policy))
		require.NoError(t, w.Reload(t.Context()), "the store has no states that the rules could not read")
	}
	start()
	require.Eventually(t, func() bool { return fetch(t, w.apiURL("/readyz")).body == readyWith }, testTimeout, 10*time.Millisecond)
	require.Equal(t, 4, w.allowed(5))
}

func TestReloadKeepsWhatWasUsedDuringAnOutage(t *testing.T) {
	server := servers.Redis(t)
	w := startTestServer(t, oneByIP, on("redis://"+server.Addr()), withUpstream(t, hello), onFailure(sluice.FailLocal))
	server.Stop()
	require.Equal(t, 3, w.allowed(5))
	require.NoError(t, w.Reload(t.Context()))
	require.Zero(t, w.allowed(5))
}

// TestLateStoreWithUnreadableStatesIsNotUsed: if the rules cannot read the state that all requests need, the server does not use
// the store and is not ready, until a reload with other rules.
func TestLateStoreWithUnreadableStatesIsNotUsed(t *testing.T) {
	skipIfShort(t)
	const shared = "rules: [{name: all, policy: gcra 3/h}]"
	dir := t.TempDir()
	present, missing := filepath.Join(dir, "present"), filepath.Join(dir, "missing")
	require.NoError(t, os.Mkdir(present, 0o700))
	before := startTestServer(t, shared, on("sqlite:"+filepath.Join(present, "limits.db")))
	damaged := storage.Swap{Key: keyText("all", ""), New: storage.Record{Version: 1, State: []byte("damaged")}}
	_, _, err := before.store.CompareAndSwap(t.Context(), damaged)
	require.NoError(t, err)
	before.Close()

	w := startTestServer(t, shared, on("sqlite:"+filepath.Join(missing, "limits.db")), withUpstream(t, hello), onFailure(sluice.FailOpen))
	require.NoError(t, os.Rename(present, missing))
	require.Eventually(t, func() bool { return fetch(t, w.apiURL("/readyz")).StatusCode == http.StatusServiceUnavailable }, testTimeout, 10*time.Millisecond)
	require.Contains(t, w.logged.String(), "not a state of this policy")
	require.Equal(t, 5, w.allowed(5))
	w.rules.Store(strings.ReplaceAll(shared, "all", "renamed"))
	require.NoError(t, w.Reload(t.Context()))
	require.Eventually(t, func() bool { return fetch(t, w.apiURL("/readyz")).body == readyWith }, testTimeout, 10*time.Millisecond)
	require.Equal(t, 3, w.allowed(5))
}

// expired is a store with n expired records.
type expired struct {
	n       int
	batches []int
	err     error
}

func (e *expired) Purge(ctx context.Context, most int) (int, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return 0, errors.New("without a deadline")
	}
	removed := min(e.n, most)
	e.n -= removed
	e.batches = append(e.batches, removed)
	return removed, e.err
}

func TestPurgesAreLoggedAndCounted(t *testing.T) {
	w := startTestServer(t, oneByIP)
	e := &expired{n: 2*purgeBatch + 5}
	w.purge(t.Context(), e)
	require.Contains(t, w.logged.String(), fmt.Sprintf("removed=%d", 2*purgeBatch+5))
	require.Equal(t, []int{purgeBatch, purgeBatch, 5}, e.batches)
	e.err = errors.New("disk full")
	w.purge(t.Context(), e)
	require.Contains(t, w.logged.String(), "disk full")
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_purges_total{outcome="failed"} 1`)

	ended, end := context.WithCancel(t.Context())
	end()
	w.purge(ended, e)
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_purges_total{outcome="failed"} 1`, "the server stops")
}

// TestTheServerPurgesItsStore: the server removes expired records without any request.
func TestTheServerPurgesItsStore(t *testing.T) {
	w, err := newTestServer(t, oneByIP, on("sqlite:"+filepath.Join(t.TempDir(), "limits.db")))
	require.NoError(t, err)
	for i := range 3 {
		swap := storage.Swap{Key: fmt.Sprint(i), New: storage.Record{Version: storage.NewVersion()}, TTL: 1}
		_, swapped, err := w.store.CompareAndSwap(t.Context(), swap)
		require.NoError(t, err)
		require.True(t, swapped)
	}
	w.purgeEvery = 10 * time.Millisecond
	go func() { w.done <- w.Serve(context.Background()) }()
	require.Eventually(t, func() bool { return strings.Contains(w.logged.String(), "removed=3") }, testTimeout, time.Millisecond)
	w.Close()
	require.NoError(t, w.ended())
}

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
	schema := strings.ReplaceAll(strings.ToLower(t.Name()), "/", "_")
	d := &database{t: t, role: schema + "_role"}
	u, err := url.Parse(shared.Postgres(t).DSN())
	require.NoError(t, err)
	u.RawQuery += "&search_path=" + schema
	d.owner, err = pgx.Connect(t.Context(), u.String())
	require.NoError(t, err)
	t.Cleanup(func() { d.owner.Close(context.Background()) })
	d.exec("CREATE SCHEMA %s", schema)
	store, err := stores.Open(u.String(), stores.Options{})
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, store.Prepare(t.Context()))
	d.exec("CREATE ROLE %s LOGIN; GRANT USAGE ON SCHEMA %s TO %[1]s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[2]s TO %[1]s", d.role, schema)
	u.User = url.User(d.role)
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
	_, err = newTestServer(t, oneByIP, on(d.dsn))
	require.ErrorContains(t, err, "--no-functions", "the role may not create functions, and the error has the remedy")
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

// TestPoliciesOfOneKindShareAProbe: the store has no more work because the periods of stacks differ.
func TestPoliciesOfOneKindShareAProbe(t *testing.T) {
	s := &Server{store: &stores.Store{Store: oneKey{new(memory.Store)}}}
	rules := "rules: [{name: a, policy: all(gcra 1/s; gcra 9/m), paths: [/a]}, {name: b, policy: all(gcra 1/s; gcra 9/h), paths: [/b]}]"
	probe, err := s.newDecisionProbe(&config.File{Rules: apiRules(t, rules)})
	require.NoError(t, err)
	require.Len(t, probe.own, 1)
}
