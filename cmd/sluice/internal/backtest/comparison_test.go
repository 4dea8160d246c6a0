package backtest_test

// These tests promise:
//
//   - The counts of a replay are those of the decisions, each made at the time of its request
//     (replay_test.go), under several rules too (rules_test.go). They are those of a limiter.
//   - A comparison lists the clients whose decisions change most (comparison_test.go). Package plan tests that it has
//     the counts of two replays.
//   - The most units in an interval are exact (window_test.go).
//   - The timeline counts each request in the right bin (timeline_test.go).

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
)

// rulesByWho returns rules by visit.who. Their names are a, b and so on.
func rulesByWho(t *testing.T, shadow string, specs ...string) *backtest.Rules[visit] {
	ps := unpriced(t, specs...)
	var rules []sluice.Rule[visit]
	for i, p := range ps {
		name := string(rune('a' + i))
		rules = append(rules, sluice.Rule[visit]{Name: name, Key: func(v visit) string { return v.who }, Policy: p, Shadow: name == shadow})
	}
	r, err := backtest.NewRules(rules, ps)
	require.NoError(t, err)
	return r
}

// TestRulesThatDenyTogetherShareARequest: the request counts for each of them, and for none alone.
func TestRulesThatDenyTogetherShareARequest(t *testing.T) {
	c := backtest.NewComparison(rulesByWho(t, "", "fixedwindow 9/h"), rulesByWho(t, "c", "fixedwindow 1/h", "fixedwindow 1/d", "fixedwindow 1/m"))
	for range 2 {
		require.NoError(t, c.Add(t.Context(), time.Unix(0, 0), visit{who: "ann"}, []byte("ann")))
	}
	require.Equal(t, map[string]backtest.RuleShare{"a": {Denied: 1}, "b": {Denied: 1}}, c.Report(0).NewlyDeniedBy, "c is in shadow mode")
}

func TestMostChangedClientsComeFirst(t *testing.T) {
	c := backtest.NewComparison(rulesByWho(t, "", "fixedwindow 9/h"), rulesByWho(t, "", "fixedwindow 1/h"))
	for _, who := range []string{"cy", "bob", "ann", "ann", "bob", "cy", "cy", "dan"} {
		require.NoError(t, c.Add(t.Context(), time.Unix(0, 0), visit{who: who}, []byte(who)))
	}
	for top, want := range map[int][]string{0: nil, 2: {"cy", "ann"}, 9: {"cy", "ann", "bob"}} {
		r := c.Report(top)
		var clients []string
		for _, client := range r.MostNewlyDenied {
			clients = append(clients, client.Client)
		}
		require.Equal(t, want, clients)
		require.EqualValues(t, 3, r.Clients.NewlyDenied)
		require.Empty(t, r.MostNewlyAllowed)
	}
}
