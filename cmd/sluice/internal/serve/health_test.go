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
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/sluicetest"
	"github.com/sluice-go/sluice/storage"
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
