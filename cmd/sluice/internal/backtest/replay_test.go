package backtest_test

// These tests promise:
//
//   - The counts of a replay are those of the decisions, each made at the time of its request, under several rules
//     too. They are those of a limiter.
//   - A comparison lists the clients whose decisions change most. Package plan tests that it has the counts of two
//     replays.
//   - The most units in an interval are exact, and the timeline counts each request in the right bin
//     (timeline_test.go).

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
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

func TestReplayCountsEachPolicy(t *testing.T) {
	r := backtest.New(policies(t, "gcra 2/m", "gcra 1/m")...)
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, key := range []string{"a", "a", "b", "a"} {
		require.NoError(t, r.Add(start.Add(time.Duration(i)*time.Second), []byte(key)))
	}
	report := r.Report(10)
	require.EqualValues(t, 4, report.Requests)
	require.EqualValues(t, 2, report.Keys)
	require.EqualValues(t, 1, report.Disagreements)
	require.Equal(t, []backtest.Example{{Time: start.Add(time.Second), Key: "a", Allowed: []bool{true, false}}}, report.Examples)

	two, one := report.Policies[0], report.Policies[1]
	require.EqualValues(t, 3, two.Allowed)
	require.EqualValues(t, 1, two.Denied)
	require.EqualValues(t, 2, two.Admitted)
	require.Equal(t, 27*time.Second, two.LongestWait)
	require.EqualValues(t, 2, one.Allowed)
	require.EqualValues(t, 2, one.Denied)
	require.EqualValues(t, 1, one.KeysDenied)
	require.Equal(t, 59*time.Second, one.LongestWait)
	require.Equal(t, []backtest.KeyDenials{{Key: "a", Denied: []int64{1, 2}}}, report.TopDenied)
}

func TestCostAboveCapacityCountsAsNever(t *testing.T) {
	r := backtest.New(policies(t, "gcra 1/m cost=2")...)
	require.NoError(t, r.Add(time.Unix(10, 0), []byte("a")))
	p := r.Report(1).Policies[0]
	require.EqualValues(t, 1, p.Never)
	require.Zero(t, p.LongestWait)
}

// TestReplayDecidesLikeALimiter: the replay of one rule uses a limiter.
func TestReplayDecidesLikeALimiter(t *testing.T) {
	for _, spec := range []string{
		"gcra 10/m burst=5", "tokenbucket 10/m refill=interval", "fixedwindow 10/m", "movingwindow 10/m slots=12 trailing=whole",
		"all(gcra 3/s; gcra 10/m)", "calendar 100/day tz=Europe/Berlin", "penalty(fixedwindow 10/m; for=3m)",
	} {
		replay, rules := backtest.New(policies(t, spec)...), rulesByWho(t, "", spec)
		random, now := rand.New(rand.NewPCG(5, 6)), time.Unix(1e9, 0)
		for range 5000 {
			now = now.Add(time.Duration(random.Int64N(int64(4 * time.Second))))
			who := string(rune('a' + random.IntN(3)))
			require.NoError(t, replay.Add(now, []byte(who)))
			_, err := rules.Add(t.Context(), now, visit{who: who})
			require.NoError(t, err)
		}
		got, want := replay.Report(9).Policies[0], rules.Report(9).Rules[0].Outcome
		require.Positive(t, want.Denied, spec)
		require.Equal(t, want, got, spec)
	}
}

func TestTopDeniedIsOrderedAndCut(t *testing.T) {
	r := backtest.New(policies(t, "gcra 1/d")...)
	for i := range 5000 {
		for range 1 + i%7 {
			require.NoError(t, r.Add(time.Unix(10, 0), fmt.Appendf(nil, "%04d", i)))
		}
	}
	require.Equal(t, []backtest.Denials{{Key: "0006", Denied: 6}, {Key: "0013", Denied: 6}}, r.Report(2).Policies[0].TopDenied)
	require.Empty(t, r.Report(0).Policies[0].TopDenied)
	all := r.Report(math.MaxInt)
	require.Len(t, all.Policies[0].TopDenied, 4285)
	require.Len(t, all.TopDenied, 4285)
}

// visit is an input of two keys.
type visit struct{ who, where string }

func TestRulesDecideTogether(t *testing.T) {
	ps := unpriced(t, "gcra 2/m", "gcra 1/m", "gcra 1/h")
	byWho := func(v visit) string { return v.who }
	r, err := backtest.NewRules([]sluice.Rule[visit]{
		{Name: "who", Key: byWho, Policy: ps[0]},
		{Name: "where", Key: func(v visit) string { return v.where }, PolicyFor: func(v visit) (algo.Policy, error) {
			if v.where == "" {
				return nil, sluice.Skip
			}
			return ps[1], nil
		}},
		{Name: "tried", Key: byWho, Policy: ps[2], Shadow: true},
	}, ps)
	require.NoError(t, err)
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, v := range []visit{
		{"ann", "x"}, // charged under all three
		{"bob", "x"}, // denied by where; costs bob nothing
		{"ann", ""},  // denied by tried, in shadow
		{"ann", "y"}, // denied by who; costs y nothing
		{"bob", "y"}, // charged under all three
		{"ann", "y"}, // denied by who and where
	} {
		_, err := r.Add(t.Context(), start.Add(time.Duration(i)*time.Second), v)
		require.NoError(t, err)
	}
	report := r.Report(10)
	require.EqualValues(t, 6, report.Requests)
	require.EqualValues(t, 3, report.Allowed)
	require.EqualValues(t, 3, report.Denied)
	require.Equal(t, 59*time.Second, report.LongestWait)

	who, where, tried := report.Rules[0], report.Rules[1], report.Rules[2]
	require.Equal(t, [...]int64{6, 4, 2, 2, 1}, [...]int64{who.Requests, who.Allowed, who.Denied, who.Keys, who.Alone})
	require.Equal(t, [...]int64{5, 3, 2, 2, 1}, [...]int64{where.Requests, where.Allowed, where.Denied, where.Keys, where.Alone})
	require.Equal(t, [...]int64{6, 3, 3, 2, 0}, [...]int64{tried.Requests, tried.Allowed, tried.Denied, tried.Keys, tried.Alone})
	require.Equal(t, []backtest.Denials{{Key: "ann", Denied: 3}}, tried.TopDenied)
	require.EqualValues(t, 2, who.Admitted)
	require.EqualValues(t, 1, where.Admitted)

	together := report.Timeline.Denied[3]
	require.Equal(t, []int64{0, 1, 0, 1, 0, 1}, together)
	require.Equal(t, []int64{0, 1, 0, 0, 0, 1}, report.Timeline.Denied[1])
	require.Equal(t, []int64{1, 0, 0, 1, 1, 0}, report.Timeline.Allowed[1])
}

func TestInvalidRulesAreRefused(t *testing.T) {
	_, err := backtest.NewRules([]sluice.Rule[visit]{{Name: "a"}}, unpriced(t, "gcra 1/m"))
	require.ErrorContains(t, err, "a")
}

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
	c := backtest.NewComparison(rulesByWho(t, "", "gcra 30/m burst=10", "gcra 100/d"), rulesByWho(t, "", "gcra 20/m burst=10", "gcra 100/d"))
	for i := range clients {
		who := fmt.Sprintf("203.%d.%d.%d", i>>16, i>>8&255, i&255)
		require.NoError(t, c.Add(t.Context(), time.Unix(1_700_000_000+int64(i/100), 0), visit{who: who}, []byte(who)))
	}
	perClient := (heap() - before) / clients
	require.EqualValues(t, clients, c.Report(1).Clients.All)
	t.Logf("%d bytes a client", perClient)
	require.Less(t, perClient, uint64(400), "bytes a client")
}
