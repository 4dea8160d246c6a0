package serve

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// keyText returns the key of a rule with the algorithm gcra in a store.
func keyText(rule, key string) string {
	return driver.RuleKey{Rule: driver.Rule("", rule, "gcra"), Key: key}.String()
}

func on(store string) func(*Options) { return func(o *Options) { o.Store = store } }

func TestFaultyReloadKeepsTheOldRules(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello))
	for rules, want := range map[string]string{
		strings.ReplaceAll(oneByIP, "gcra", "gcar"): "limits.yaml:4: rules[0].policy",
		"": "limits.yaml",
	} {
		w.rules.Store(rules)
		require.ErrorContains(t, w.Reload(t.Context()), want)
	}
	require.Equal(t, 3, w.allowed(4))
	w.rules.Store("rules: []\nbroken: yes\n")
	require.Error(t, w.Reload(t.Context()))
	const message = `msg="reload failed; the old rules stay in force" .*limits.yaml.* `
	require.Regexp(t, message+`line=1 field=rules`, w.logged.String())
	require.Regexp(t, message+`line=2 .*no field`, w.logged.String(), "each error has a line of the log")
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_reloads_total{outcome="failed"} 3`)
}

func TestServiceUsesTheNewRules(t *testing.T) {
	w := startTestServer(t, oneByIP)
	w.rules.Store(strings.ReplaceAll(oneByIP, "client", "other"))
	require.NoError(t, w.Reload(t.Context()))
	require.Equal(t, 404, w.decide("allow", `{"key":"a","rule":"client"}`).StatusCode)
	require.Equal(t, 200, w.decide("allow", `{"key":"a","rule":"other"}`).StatusCode)
}

func TestCanceledReloadIsNotAFailure(t *testing.T) {
	w := startTestServer(t, oneByIP)
	ctx, end := context.WithCancel(t.Context())
	w.options.Read = func(ctx context.Context) (*config.File, error) {
		end()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	require.ErrorIs(t, w.Reload(ctx), context.Canceled)
	require.NotContains(t, w.logged.String(), "reload failed")
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_reloads_total{outcome="failed"} 0`)
}

// TestReloadTimesOut: a blocked read must not block later reloads.
func TestReloadTimesOut(t *testing.T) {
	w := startTestServer(t, oneByIP)
	w.options.Read = func(ctx context.Context) (*config.File, error) {
		_, ends := ctx.Deadline()
		require.True(t, ends)
		return nil, context.DeadlineExceeded
	}
	require.ErrorContains(t, w.Reload(t.Context()), "the rules could not be read within 30s; check the file")
	require.Contains(t, w.logged.String(), "reload failed; the old rules stay in force")
}

// TestReloadUnderLoad raises and lowers a limit under load. No request fails, and quota that was used stays used.
func TestReloadUnderLoad(t *testing.T) {
	daily := func(count int64) string {
		return fmt.Sprintf("rules: [{name: daily, policy: fixedwindow %d/24h, by: ip}]", count)
	}
	var upstream atomic.Int64
	w := startTestServer(t, daily(100), withUpstream(t, func(http.ResponseWriter, *http.Request) { upstream.Add(1) }))
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	var allowed atomic.Int64
	for range 8 {
		clients.Go(func() {
			for ctx.Err() == nil {
				response, err := client.Get(w.proxyURL("/"))
				if !assert.NoError(t, err) {
					return
				}
				assert.Contains(t, []int{http.StatusOK, http.StatusTooManyRequests}, response.StatusCode)
				if response.StatusCode == http.StatusOK {
					allowed.Add(1)
				}
				assert.NoError(t, response.Body.Close())
			}
		})
	}
	for _, count := range []int64{100, 300, 200, 400} {
		w.rules.Store(daily(count))
		require.NoError(t, w.Reload(t.Context()))
		require.Eventually(t, func() bool { return upstream.Load() >= count }, testTimeout, time.Millisecond) // already so if the limit was lowered
		require.Zero(t, w.allowed(1), count)
	}
	stop()
	clients.Wait()
	require.EqualValues(t, 400, allowed.Load())
	require.EqualValues(t, 400, upstream.Load())
}

// TestNewAlgorithm: all units are available again after a restart or a reload, and the old algorithm has its own units.
func TestNewAlgorithm(t *testing.T) {
	for _, store := range []string{"sqlite:" + filepath.Join(t.TempDir(), "limits.db"), "redis://" + servers.Redis(t).Addr(), newSchema(t)} {
		w := startTestServer(t, oneByIP, on(store), withUpstream(t, hello))
		require.Equal(t, 3, w.allowed(4))
		for _, policy := range []string{"fixedwindow 3/h", "all(gcra 3/h; gcra 2/m)"} {
			rules := strings.ReplaceAll(oneByIP, "gcra 3/h", policy)
			restarted := startTestServer(t, rules, on(store), withUpstream(t, hello))
			require.Equal(t, 1, restarted.allowed(1), "%s %s", store, policy)
			w.rules.Store(rules)
			require.NoError(t, w.Reload(t.Context()))
			require.Equal(t, 1, w.allowed(1), "%s %s", store, policy)
		}
		w.rules.Store(oneByIP)
		require.NoError(t, w.Reload(t.Context()))
		require.Equal(t, 0, w.allowed(1), store)
	}
}

// TestLogNamesTheRuleWithUnreadableStates: the log also has the remedy.
func TestLogNamesTheRuleWithUnreadableStates(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	w := startTestServer(t, oneByIP, on(store), withUpstream(t, hello))
	key := keyText("client", "127.0.0.1")
	_, _, err := w.store.CompareAndSwap(t.Context(), storage.Swap{Key: key, New: storage.Record{Version: 1, State: []byte("no state")}})
	require.NoError(t, err)
	require.Equal(t, 500, fetch(t, w.proxyURL("/")).StatusCode)
	require.Equal(t, 500, w.decide("allow", `{"key":"127.0.0.1"}`).StatusCode)
	for _, line := range []string{`msg="a limit cannot be decided"`, `msg="no decision: The server or its configuration is faulty"`} {
		require.Regexp(t, line+`.* rule=client remedy="reset the key, give the rule a new name, or start with another --namespace`, w.logged.String())
	}
	require.NotContains(t, w.logged.String(), "127.0.0.1 ")
	require.Equal(t, []any{"error", sluice.ErrSkew.Error()}, logAttributes(sluice.ErrSkew))
}
