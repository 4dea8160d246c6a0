package movingwindow_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/movingwindow"
)

func TestNewRefusesACost(t *testing.T) {
	kit.NewRefusesCosts(t, movingwindow.Options{Limit: algo.Per(100, time.Minute)})
}

func TestInvalidOptionsAreRefusedAndDeny(t *testing.T) {
	second := algo.Per(1, time.Second)
	kit.InvalidOptions(t, movingwindow.State{At: 5, Width: 7, Counts: [17]int64{1}}, map[string]movingwindow.Options{
		"movingwindow: algo: Limit.Count must be at least 1, got 0":                               {},
		"movingwindow: algo: Limit.Count must be at most 2^40 (1099511627776), got 1099511627777": {Limit: algo.Per(algo.MaxCount+1, time.Second)},
		"movingwindow: algo: Limit.Period must be at least 1us, got 0s":                           {Limit: algo.Per(1, 0)},
		"movingwindow: algo: Limit.Period must be a whole number of microseconds, got 1.5µs":      {Limit: algo.Per(1, 1500)},
		"movingwindow: algo: Limit.Period must be at most 26062d, which is 71 years":              {Limit: algo.Per(1, algo.MaxPeriod+time.Microsecond)},
		"movingwindow: Slots must be from 1 to 1024, or 0 for 1, got -1":                          {Limit: second, Slots: -1},
		"movingwindow: Slots must be from 1 to 1024, or 0 for 1, got 1025":                        {Limit: second, Slots: 1025},
		"movingwindow: Trailing must be Weighted or Whole, got 2":                                 {Limit: second, Trailing: 2},
		"movingwindow: Trailing must be Weighted or Whole, got -1":                                {Limit: second, Trailing: -1},
		"movingwindow: Cost is -1": {Limit: second, Cost: -1},
	})
	policytest.ZeroPolicyDenies(t, movingwindow.Policy{})
}

func TestExtremeOptionsAreValid(t *testing.T) {
	for _, o := range []movingwindow.Options{
		{Limit: algo.Per(1, time.Microsecond)},
		{Limit: algo.Per(1, time.Microsecond), Slots: 1024},
		{Limit: algo.Per(1, algo.MaxPeriod)},
		{Limit: algo.Per(algo.MaxCount, time.Microsecond)},
		{Limit: algo.Per(algo.MaxCount, algo.MaxPeriod)},
		{Limit: algo.Per(algo.MaxCount, algo.MaxPeriod), Slots: 1024, Trailing: movingwindow.Whole},
		{Limit: algo.Per(1, time.Microsecond), Cost: math.MaxInt64},
	} {
		require.NoError(t, o.Validate(), "%+v", o)
		o.Cost = o.Limit.Count
		s, r := movingwindow.Step(movingwindow.State{}, start, o)
		require.True(t, r.Allowed)
		require.Positive(t, r.ResetAfter)
		require.False(t, movingwindow.Peek(s, start, o).Allowed)
	}
}

func TestBoundIsTheDocumentedFormula(t *testing.T) {
	for _, n := range []int64{1, 2, 3, 5} {
		for w := int64(1); w <= 6; w++ {
			for _, l := range []int64{1, 2, 7, 1 << 40} {
				o := movingwindow.Options{Limit: algo.Per(l, time.Duration(n*w)*time.Microsecond), Slots: int(n)}
				strict := o
				strict.Trailing = movingwindow.Whole
				require.Equal(t, l, kit.Bound(o, 1))
				require.Equal(t, l, kit.Bound(strict, shortest(n*w)))
				require.Equal(t, l, kit.Bound(o, shortest((n-1)*w)))
				for m := int64(1); m < 40; m++ {
					require.Equal(t, saturated(l, (2+(m-1)/w+n)/(n+1), 0), kit.Bound(strict, shortest(m)))
					u, e := (m-1)/w-(n-1), (m-1)%w
					want := l
					switch {
					case u >= 0 && u%n == 0:
						want = saturated(l, 1+u/n, l*e/w)
					case u >= 0:
						want = saturated(l, 2+u/n, 0)
					}
					require.Equal(t, want, kit.Bound(o, shortest(m)), "%+v over %dus", o, m)
				}
			}
		}
	}
}

func saturated(a, b, c int64) int64 {
	p := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	if p.Add(p, big.NewInt(c)); !p.IsInt64() {
		return math.MaxInt64
	}
	return p.Int64()
}

func TestDocumentedTimeline(t *testing.T) {
	o := movingwindow.Options{Limit: algo.Per(10, time.Minute)}
	var s movingwindow.State
	for _, c := range []struct {
		at         time.Duration
		cost, left int64
		retryAfter time.Duration
	}{{30 * time.Second, 6, 4, 0}, {60 * time.Second, 4, 0, 0}, {64 * time.Second, 1, 0, 6 * time.Second}, {90 * time.Second, 3, 0, 0}} {
		o.Cost = c.cost
		next, r := movingwindow.Step(s, start.Add(c.at), o)
		require.Equal(t, c.left, r.Remaining, "at %v", c.at)
		require.Equal(t, c.retryAfter, r.RetryAfter, "at %v", c.at)
		s = next
	}
}

// A caller that retries as soon as it can gets the share of the limit that the doc states.
func TestShareOfAGreedyCaller(t *testing.T) {
	for _, c := range []struct {
		count    int64
		slots    int
		trailing movingwindow.Trailing
		percent  float64
	}{
		{1, 1, movingwindow.Weighted, 50},
		{5, 1, movingwindow.Weighted, 80},
		{100, 1, movingwindow.Weighted, 99},
		{1, 8, movingwindow.Weighted, 89},
		{1, 1, movingwindow.Whole, 50},
		{5, 1, movingwindow.Whole, 50},
		{100, 1, movingwindow.Whole, 50},
		{1, 8, movingwindow.Whole, 89},
		{100, 12, movingwindow.Whole, 92},
	} {
		o := movingwindow.Options{Limit: algo.Per(c.count, time.Minute), Slots: c.slots, Trailing: c.trailing}
		const periods = 2000
		var s movingwindow.State
		var got int64
		for now := time.Duration(0); now < periods*time.Minute; {
			next, r := movingwindow.Step(s, start.Add(now), o)
			got, s = got+r.Paid, next
			now += r.RetryAfter
		}
		percent := 100 * float64(got) / float64(periods*c.count)
		require.InDelta(t, c.percent, percent, 0.6, "%+v", o)
	}
}

func TestSpecs(t *testing.T) {
	kit.Specs(t, func(o movingwindow.Options) algo.Limit { return o.Limit }, map[string]movingwindow.Options{
		"movingwindow 10/s":                 {Limit: algo.Per(10, time.Second)},
		"movingwindow 10/m":                 {Limit: algo.Per(10, time.Minute), Slots: 1, Cost: 1},
		"movingwindow 100/m slots=12":       {Limit: algo.Per(100, time.Minute), Slots: 12},
		"movingwindow 100/m trailing=whole": {Limit: algo.Per(100, time.Minute), Trailing: movingwindow.Whole},
		"movingwindow 1/250ms slots=1024 trailing=whole": {
			Limit: algo.Per(1, 250*time.Millisecond), Slots: 1024, Trailing: movingwindow.Whole,
		},
	})
	require.Equal(t, "Trailing(7)", movingwindow.Trailing(7).String())
}
