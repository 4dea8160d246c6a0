package backtest_test

// These tests promise:
//
//   - The counts of a replay are those of the decisions, each made at the time of its request
//     (replay_test.go), under several rules too (rules_test.go).
//   - A comparison has the counts of two replays, one for each set of rules (comparison_test.go).
//   - The most units in an interval are exact and within the bound of the policy (window_test.go).
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

func TestComparisonCountsWhatOnlyOneSideDenies(t *testing.T) {
	c := backtest.NewComparison(rulesByWho(t, "", "fixedwindow 2/h", "fixedwindow 2/d"), rulesByWho(t, "", "fixedwindow 1/h", "fixedwindow 3/d"))
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, who := range []string{
		"ann", // allowed by both
		"ann", // denied by the new a
		"ann", // denied by both
		"bob",
	} {
		require.NoError(t, c.Add(t.Context(), start.Add(time.Duration(i)*time.Minute), visit{who: who}, []byte(who)))
	}
	for i := range 3 { // an hour after each other: the old b denies all of ann's, and the new rules allow two
		require.NoError(t, c.Add(t.Context(), start.Add(time.Duration(i+1)*time.Hour), visit{who: "ann"}, []byte("ann")))
	}
	r := c.Report(10)
	require.Equal(t, [...]int64{7, 4}, [...]int64{r.Before.Requests, r.Before.Denied})
	require.Equal(t, [...]int64{7, 3}, [...]int64{r.After.Requests, r.After.Denied})
	require.EqualValues(t, 1, r.NewlyDenied)
	require.EqualValues(t, 2, r.NewlyAllowed)
	require.Equal(t, map[string]backtest.RuleShare{"a": {Denied: 1, Alone: 1}}, r.NewlyDeniedBy)
	require.Equal(t, map[string]backtest.RuleShare{"b": {Denied: 2, Alone: 2}}, r.NewlyAllowedBy)
	require.Equal(t, backtest.ClientCounts{All: 2, NewlyDenied: 1, NewlyAllowed: 1}, r.Clients)
	ann := backtest.ClientChange{Client: "ann", Requests: 6, DeniedBefore: 4, NewlyDenied: 1, NewlyAllowed: 2}
	require.Equal(t, []backtest.ClientChange{ann}, r.MostNewlyDenied)
	require.Equal(t, []backtest.ClientChange{ann}, r.MostNewlyAllowed)
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

func TestComparisonRefusesTimeThatStepsBack(t *testing.T) {
	c := backtest.NewComparison(rulesByWho(t, "", "gcra 1/s"), rulesByWho(t, "", "gcra 1/s"))
	require.NoError(t, c.Add(t.Context(), time.Unix(10, 0), visit{}, nil))
	require.ErrorContains(t, c.Add(t.Context(), time.Unix(9, 0), visit{}, nil), "comes after")
}
