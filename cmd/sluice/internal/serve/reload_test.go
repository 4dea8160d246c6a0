package serve

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/internal/servers"
)

func on(store string) func(*Options) { return func(o *Options) { o.Store = store } }

func TestReload(t *testing.T) {
	redis := servers.Redis(t)
	for name, store := range map[string]string{
		"memory": "memory:",
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "limits #1%.db"),
		"redis":  "redis://" + redis.Addr(),
	} {
		t.Run(name, func(t *testing.T) {
			w := startTestServer(t, oneByIP, withUpstream(t, hello), on(store))
			require.Equal(t, 2, w.allowed(2))

			w.rules.Store(strings.ReplaceAll(oneByIP, "3/h", "5/h"))
			require.NoError(t, w.Reload(t.Context()))
			require.Equal(t, 3, w.allowed(9), "2 were used of 5")

			w.rules.Store(oneByIP)
			require.NoError(t, w.Reload(t.Context()))
			require.Equal(t, 0, w.allowed(1))
			require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_reloads_total{outcome="ok"} 2`)
		})
	}
}

func TestFaultyReloadKeepsTheOldRules(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello))
	for rules, want := range map[string]string{
		strings.ReplaceAll(oneByIP, "gcra", "gcar"):                        "limits.yaml:4: rules[0].policy",
		strings.ReplaceAll(oneByIP, "gcra", "fixedwindow"):                 "was gcra and is now fixedwindow",
		strings.ReplaceAll(oneByIP, "gcra 3/h", "all(gcra 3/h; gcra 2/m)"): "was gcra and is now all(gcra; gcra)",
		"": "limits.yaml",
	} {
		w.rules.Store(rules)
		require.ErrorContains(t, w.Reload(t.Context()), want)
	}
	require.Equal(t, 3, w.allowed(4))
	require.Contains(t, w.logged.String(), "reload failed; the old rules stay in force")
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_reloads_total{outcome="failed"} 4`)
}

// TestTheLaterReadingWins because no other reload reads before the first is over.
func TestTheLaterReadingWins(t *testing.T) {
	w := startTestServer(t, oneByIP)
	read, unlocked := w.options.Read, false
	w.options.Read = func(ctx context.Context) (*config.File, error) {
		if w.reloading.TryLock() {
			unlocked = true
			w.reloading.Unlock()
		}
		return read(ctx)
	}
	require.NoError(t, w.Reload(t.Context()))
	require.False(t, unlocked)
}

// TestReloadRefusesANewAlgorithm: the rule's stored states could not be read.
func TestReloadRefusesANewAlgorithm(t *testing.T) {
	w := startTestServer(t, oneByIP)
	w.rules.Store(strings.ReplaceAll(oneByIP, "client", "other"))
	require.NoError(t, w.Reload(t.Context()))
	w.rules.Store(strings.ReplaceAll(oneByIP, "gcra", "movingwindow"))
	require.ErrorContains(t, w.Reload(t.Context()), `rule "client" was gcra and is now movingwindow, which cannot read the rule's stored states; give the rule a new name, or start with another --namespace`)
}

func TestServiceUsesTheNewRules(t *testing.T) {
	w := startTestServer(t, oneByIP)
	w.rules.Store(strings.ReplaceAll(oneByIP, "client", "other"))
	require.NoError(t, w.Reload(t.Context()))
	require.Equal(t, 404, w.decide("allow", `{"key":"a","limit":"client"}`).StatusCode)
	require.Equal(t, 200, w.decide("allow", `{"key":"a","limit":"other"}`).StatusCode)
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
