package backtest_test

// These tests promise:
//
//   - The counts of a replay are those of the decisions, each made at the time of its request, under several rules
//     too. They are those of a limiter.
//   - A comparison needs little memory. Package plan tests that it has the counts of two replays, and lists the clients
//     whose decisions change most. The outputs of package replay hold all other counts.
//   - The most units in an interval are exact, and the timeline counts each request in the right bin
//     (timeline_test.go).

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/internal/costed"
)

func policies(t testing.TB, specs ...string) (ps []costed.Policy) {
	for _, spec := range specs {
		p, err := costed.Parse(spec)
		require.NoError(t, err)
		ps = append(ps, p)
	}
	return ps
}

// unpriced returns policies for rules, which have the cost.
func unpriced(t testing.TB, specs ...string) (ps []algo.Policy) {
	for _, p := range policies(t, specs...) {
		ps = append(ps, p.Policy)
	}
	return ps
}

// TestReplayDecidesLikeALimiter: the replay of one rule uses a limiter.
func TestReplayDecidesLikeALimiter(t *testing.T) {
	for _, spec := range []string{
		"gcra 10/m burst=5", "tokenbucket 10/m refill=interval", "fixedwindow 10/m", "movingwindow 10/m slots=12 trailing=whole",
		"all(gcra 3/s; gcra 10/m)", "calendar 100/day tz=Europe/Berlin", "penalty(fixedwindow 10/m; for=3m)",
	} {
		replay, rules := backtest.New(policies(t, spec)...), rulesByWho(t, spec)
		random, now := rand.New(rand.NewPCG(5, 6)), time.Unix(1e9, 0)
		for range 5000 {
			now = now.Add(time.Duration(random.Int64N(int64(4 * time.Second))))
			who := string(rune('a' + random.IntN(3)))
			require.NoError(t, replay.Add(now, []byte(who)))
			_, err := rules.Add(t.Context(), now, who)
			require.NoError(t, err)
		}
		got, want := replay.Report(9).Policies[0], rules.Report(9).Rules[0].Outcome
		require.Positive(t, want.Denied, spec)
		require.Equal(t, want, got, spec)
	}
}

func TestEquallyDeniedKeysAreInTheOrderOfTheirBytes(t *testing.T) {
	r := backtest.New(policies(t, "gcra 2/d", "gcra 1/m cost=2")...)
	for _, key := range strings.Split("bacbacbac", "") {
		require.NoError(t, r.Add(time.Unix(10, 0), []byte(key)))
	}
	report := r.Report(2)
	require.Equal(t, []backtest.KeyDenials{{Key: "a", Denied: []int64{1, 3}}, {Key: "b", Denied: []int64{1, 3}}}, report.TopDenied)
	require.Equal(t, []backtest.Denials{{Key: "a", Denied: 1}, {Key: "b", Denied: 1}}, report.Policies[0].TopDenied)
	require.EqualValues(t, 9, report.Policies[1].Never, "the cost is more than the policy ever allows")
}

// TestTimelineOfRulesHasARowForEachAndOneForAll: a request that b denies costs nothing under a.
func TestTimelineOfRulesHasARowForEachAndOneForAll(t *testing.T) {
	rules := rulesByWho(t, "fixedwindow 2/h", "fixedwindow 1/h")
	for second := range int64(3) {
		_, err := rules.Add(t.Context(), time.Unix(second, 0), "ann")
		require.NoError(t, err)
	}
	timeline := rules.Report(0).Timeline
	require.Equal(t, [][]int64{{1, 1, 1}, {1, 0, 0}, {1, 0, 0}}, timeline.Allowed)
	require.Equal(t, [][]int64{{0, 0, 0}, {0, 1, 1}, {0, 1, 1}}, timeline.Denied)
}

// rulesByWho returns rules by the input. Their names are a, b and so on.
func rulesByWho(t *testing.T, specs ...string) *backtest.Rules[string] {
	ps := unpriced(t, specs...)
	var rules []sluice.Rule[string]
	for i, p := range ps {
		rules = append(rules, sluice.Rule[string]{Name: string(rune('a' + i)), Key: func(who string) string { return who }, Policy: p})
	}
	r, err := backtest.NewRules(rules, ps)
	require.NoError(t, err)
	return r
}

// TestAComparisonNeedsLittleMemoryForAClient: half of the states never expire before the end, so that
// they cannot be freed.
func TestAComparisonNeedsLittleMemoryForAClient(t *testing.T) {
	const clients = 30_000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	c := backtest.NewComparison(rulesByWho(t, "gcra 30/m burst=10", "gcra 100/d"), rulesByWho(t, "gcra 20/m burst=10", "gcra 100/d"))
	for i := range clients {
		who := fmt.Sprintf("203.%d.%d.%d", i>>16, i>>8&255, i&255)
		require.NoError(t, c.Add(t.Context(), time.Unix(1_700_000_000+int64(i/100), 0), who, []byte(who)))
	}
	perClient := (heap() - before) / clients
	require.EqualValues(t, clients, c.Report(1).Clients.All)
	t.Logf("%d bytes a client", perClient)
	require.Less(t, perClient, uint64(400), "bytes a client")
}
