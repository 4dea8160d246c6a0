package serve

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

// TestRestartWithAnotherAlgorithm is refused, as a reload is: every client that is
// known would get a 500.
func TestRestartWithAnotherAlgorithm(t *testing.T) {
	for _, store := range []string{"sqlite:" + filepath.Join(t.TempDir(), "limits.db"), "redis://" + servers.Redis(t).Addr(), servers.Postgres(t).DSN()} {
		started(t, oneByIP, on(store)).Close()
		for policy, shape := range map[string]string{"fixedwindow 3/h": "fixedwindow", "all(gcra 3/h; gcra 2/m)": "all(gcra; gcra)"} {
			rules := strings.ReplaceAll(oneByIP, "gcra 3/h", policy)
			_, err := opening(t, rules, on(store))
			require.ErrorContains(t, err, `rule "client" was gcra and is now `+shape+", which cannot read the rule's stored states; give the rule a new name, or start with another --namespace", store)

			within := func(o *Options) { o.Namespace = shape }
			started(t, rules, on(store), within).Close()
			started(t, strings.ReplaceAll(rules, "client", policy[:3]), on(store)).Close()
		}
		started(t, strings.ReplaceAll(oneByIP, "3/h", "2/h"), on(store)).Close()
	}
}

// TestWhatIsRefusedLeavesNoShape because the next attempt may mend it another way.
func TestWhatIsRefusedLeavesNoShape(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	started(t, oneByIP, on(store)).Close()
	_, err := opening(t, "rules: [{name: new, policy: gcra 1/h}, {name: client, policy: tokenbucket 1/h}]", on(store))
	require.ErrorContains(t, err, `rule "client"`)
	started(t, "rules: [{name: new, policy: fixedwindow 1/h}]", on(store))
}

// TestTwoProcessesAtOnce are not both told that their shape is the first.
func TestTwoProcessesAtOnce(t *testing.T) {
	s := &Server{store: &opened{Store: unseen{new(memory.Store)}}}
	rules := apiRules(t, oneByIP)
	require.NoError(t, s.checkAndRecord(t.Context(), rules))
	require.NoError(t, s.checkAndRecord(t.Context(), rules))
	require.ErrorContains(t, s.checkAndRecord(t.Context(), apiRules(t, strings.ReplaceAll(oneByIP, "gcra", "fixedwindow"))), "was gcra and is now fixedwindow")
}

// unseen is a store in which nothing is there yet when it is looked at.
type unseen struct{ storage.Store }

func (unseen) Load(_ context.Context, keys ...string) ([]storage.Record, error) {
	return make([]storage.Record, len(keys)), nil
}

// TestStoreThatDoesNotTellShapes keeps nobody from starting.
func TestStoreThatDoesNotTellShapes(t *testing.T) {
	for _, store := range []broken{{load: errSecret}, {swap: errSecret}} {
		var logged lines
		s := &Server{store: &opened{Store: store}, log: slog.New(slog.NewTextHandler(&logged, nil))}
		require.NoError(t, s.recordFingerprints(t.Context(), apiRules(t, oneByIP)))
		require.Contains(t, logged.String(), "the algorithms of the stored rules could not be read")
	}
}

// TestLogNamesTheRuleAtFault and what to do, for states from before shapes were kept.
func TestLogNamesTheRuleAtFault(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	w := started(t, oneByIP, on(store), before(t, hello))
	key := driver.Key("", "", "client", "127.0.0.1")
	_, _, err := w.store.CompareAndSwap(t.Context(), storage.Swap{Key: key, New: storage.Record{Version: 1, State: []byte("no state")}})
	require.NoError(t, err)
	require.Equal(t, 500, fetch(t, w.proxyURL("/")).StatusCode)
	require.Equal(t, 500, w.decide("allow", `{"key":"127.0.0.1"}`).StatusCode)
	for _, line := range []string{`msg="a limit cannot be decided"`, `msg="no decision: The limit cannot be read"`} {
		require.Regexp(t, line+`.* rule=client remedy="give the rule a new name, or start with another --namespace`, w.logged.String())
	}
	require.NotContains(t, w.logged.String(), "127.0.0.1 ")
	require.Equal(t, []any{"error", compose.ErrSkew}, logAttributes(compose.ErrSkew))
}
