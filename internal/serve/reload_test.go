package serve

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/config"
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
			w := started(t, oneByIP, before(t, hello), on(store))
			require.Equal(t, 2, w.allowed(2))

			w.rules.Store(strings.ReplaceAll(oneByIP, "3/h", "5/h"))
			require.NoError(t, w.Reload())
			require.Equal(t, 3, w.allowed(9), "2 were used of 5")

			w.rules.Store(oneByIP)
			require.NoError(t, w.Reload())
			require.Equal(t, 0, w.allowed(1))
			require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_reloads_total{outcome="ok"} 2`)
		})
	}
}

func TestFaultyReloadKeepsTheOldRules(t *testing.T) {
	w := started(t, oneByIP, before(t, hello))
	for rules, want := range map[string]string{
		strings.ReplaceAll(oneByIP, "gcra", "gcar"):                        "limits.yaml:4: rules[0].policy",
		strings.ReplaceAll(oneByIP, "gcra", "fixedwindow"):                 "was gcra and is now fixedwindow",
		strings.ReplaceAll(oneByIP, "gcra 3/h", "all(gcra 3/h; gcra 2/m)"): "was gcra and is now all(gcra; gcra)",
		"": "limits.yaml",
	} {
		w.rules.Store(rules)
		require.ErrorContains(t, w.Reload(), want)
	}
	require.Equal(t, 3, w.allowed(4))
	require.Contains(t, w.logged.String(), "not reloaded, the old rules stay")
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_reloads_total{outcome="failed"} 4`)
}

// TestTheLaterReadingWins because no other reload reads before the first is over.
func TestTheLaterReadingWins(t *testing.T) {
	w := started(t, oneByIP)
	read, unlocked := w.options.Read, false
	w.options.Read = func() (*config.File, error) {
		if w.reloading.TryLock() {
			unlocked = true
			w.reloading.Unlock()
		}
		return read()
	}
	require.NoError(t, w.Reload())
	require.False(t, unlocked)
}

// TestRuleComesBack with another algorithm, to states that it cannot read.
func TestRuleComesBack(t *testing.T) {
	w := started(t, oneByIP)
	w.rules.Store(strings.ReplaceAll(oneByIP, "client", "other"))
	require.NoError(t, w.Reload())
	w.rules.Store(strings.ReplaceAll(oneByIP, "gcra", "movingwindow"))
	require.ErrorContains(t, w.Reload(), `rule "client" was gcra and is now movingwindow, which cannot read what is stored of it; give it a new name`)
}

func TestServiceGoesByTheNewRules(t *testing.T) {
	w := started(t, oneByIP)
	w.rules.Store(strings.ReplaceAll(oneByIP, "client", "other"))
	require.NoError(t, w.Reload())
	require.Equal(t, 404, w.decide("allow", `{"key":"a","limit":"client"}`).StatusCode)
	require.Equal(t, 200, w.decide("allow", `{"key":"a","limit":"other"}`).StatusCode)
}
