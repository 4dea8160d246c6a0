package serve

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/servers"
)

// laterStores are stores that cannot be reached until come is called.
var laterStores = map[string]func(t *testing.T) (address string, come func()){
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

// TestStartWithoutTheStore: requests are answered as the failure policy says, and when the
// store comes, its limits hold.
func TestStartWithoutTheStore(t *testing.T) {
	for name, later := range laterStores {
		for policy, let := range map[compose.FailurePolicy]int{compose.FailOpen: 5, compose.FailLocal: 3} {
			t.Run(fmt.Sprint(name, policy), func(t *testing.T) {
				t.Parallel()
				address, come := later(t)
				w := startTestServer(t, oneByIP, on(address), withUpstream(t, hello), failing(policy))
				require.Contains(t, w.logged.String(), "the store is unavailable; until it is available, --on-failure decides")
				require.Equal(t, let, w.allowed(5))
				require.Equal(t, readyWithout, fetch(t, w.apiURL("/readyz")).body)
				come()
				require.Eventually(t, func() bool { return fetch(t, w.apiURL("/readyz")).body == readyWith }, testTimeout, 10*time.Millisecond)
				require.Contains(t, w.logged.String(), "the store is available again")
				require.Equal(t, 3, w.allowed(5), "nothing was used in the store before")
				require.NotContains(t, w.logged.String(), "no such table")
				require.NotContains(t, w.logged.String(), "does not exist")

				another := startTestServer(t, oneByIP, on(address), withUpstream(t, hello))
				require.Equal(t, 0, another.allowed(2), "the use is in the store")
			})
		}
	}
}

func failing(policy compose.FailurePolicy) func(*Options) {
	return func(o *Options) { o.OnFailure = policy }
}

// TestReloadWithoutTheStore: the rules of a reload hold when the store comes.
func TestReloadWithoutTheStore(t *testing.T) {
	address, come := laterStores["sqlite"](t)
	w := startTestServer(t, oneByIP, on(address), withUpstream(t, hello), failing(compose.FailLocal))
	for _, policy := range []string{"fixedwindow 2/h", "gcra 4/h"} {
		w.rules.Store(strings.ReplaceAll(oneByIP, "gcra 3/h", policy))
		require.NoError(t, w.Reload(t.Context()), "nothing is stored that they could not read")
	}
	come()
	require.Eventually(t, func() bool { return fetch(t, w.apiURL("/readyz")).body == readyWith }, testTimeout, 10*time.Millisecond)
	require.Equal(t, 4, w.allowed(5))
}

// TestLateStoreWithOtherAlgorithmsIsNotUsed: as at a start, rules that cannot read what the store has
// are not used on it. The server is not ready then, until they are mended.
func TestLateStoreWithOtherAlgorithmsIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	there, missing := filepath.Join(dir, "there"), filepath.Join(dir, "missing")
	require.NoError(t, os.Mkdir(there, 0o700))
	startTestServer(t, strings.ReplaceAll(oneByIP, "gcra", "fixedwindow"), on("sqlite:"+filepath.Join(there, "limits.db"))).Close()

	w := startTestServer(t, oneByIP, on("sqlite:"+filepath.Join(missing, "limits.db")), withUpstream(t, hello), failing(compose.FailOpen))
	require.NoError(t, os.Rename(there, missing))
	require.Eventually(t, func() bool { return fetch(t, w.apiURL("/readyz")).StatusCode == http.StatusServiceUnavailable }, testTimeout, 10*time.Millisecond)
	require.Contains(t, w.logged.String(), "was fixedwindow and is now gcra")
	require.Equal(t, 5, w.allowed(5))
	w.rules.Store(strings.ReplaceAll(oneByIP, "client", "renamed"))
	require.NoError(t, w.Reload(t.Context()))
	require.Eventually(t, func() bool { return fetch(t, w.apiURL("/readyz")).body == readyWith }, testTimeout, 10*time.Millisecond)
	require.Equal(t, 3, w.allowed(5))
}
