package backtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
)

// visit is an input of two keys.
type visit struct{ who, where string }

func newRules(t *testing.T) *backtest.Rules[visit] {
	ps := unpriced(t, "gcra 2/m", "gcra 1/m", "gcra 1/h")
	who := func(v visit) string { return v.who }
	r, err := backtest.NewRules([]sluice.Rule[visit]{
		{Name: "who", Key: who, Policy: ps[0]},
		{Name: "where", Key: func(v visit) string { return v.where }, PolicyFor: func(v visit) (algo.Policy, error) {
			if v.where == "" {
				return nil, sluice.Skip
			}
			return ps[1], nil
		}},
		{Name: "tried", Key: who, Policy: ps[2], Shadow: true},
	}, ps)
	require.NoError(t, err)
	return r
}

func TestRulesDecideTogether(t *testing.T) {
	r := newRules(t)
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
