package backtest_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
