package worstcase_test

// These tests promise that the search finds calls that reach the stated bound of each algorithm, or
// come close to it, and that the calls are real.

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/worstcase"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func policy(t *testing.T, spec string) algo.Policy {
	t.Helper()
	p, err := compose.ParsePolicy(spec)
	require.NoError(t, err)
	return p
}

func TestSearchFindsTheBound(t *testing.T) {
	for _, spec := range []string{
		"gcra 30/m",
		"gcra 30/m burst=1",
		"tokenbucket 10/s burst=50",
		"tokenbucket 30/m refill=interval",
		"tokenbucket 5/10s burst=30 refill=interval",
		"fixedwindow 30/m",
		"fixedwindow 30/m align=clock",
		"fixedwindow 5/h align=clock offset=15m",
		"movingwindow 30/m",
		"movingwindow 30/m slots=12",
		"movingwindow 30/m slots=12 trailing=whole",
		"movingwindow 50/5000us slots=5",
		"movingwindow 7/24us slots=12",
		"movingwindow 7/24us slots=5 trailing=whole",
		"tokenbucket 2/3us burst=3 refill=interval",
		"tokenbucket 5/3us burst=2 refill=interval",
		"fixedwindow 2/3us",
		"fixedwindow 3/2us align=clock",
		"gcra 2/3us burst=2",
		"all(gcra 10/s; gcra 100/m burst=20)",
	} {
		p := policy(t, spec)
		period := p.Limit().Period
		for _, interval := range []time.Duration{1, 2, period / 7, period*11/12 - time.Microsecond, period - time.Microsecond, period, period + 2*time.Microsecond} {
			got, bound := worstcase.Most(worstcase.Search(p, 1, interval, begin), interval), p.Bound(interval)
			require.Equal(t, bound, got, "%s in %v", spec, interval)
		}
	}
}

// TestSearchFindsTheBoundOfWholeCosts: as many calls as fit into the bound, or into what comes back in time.
func TestSearchFindsTheBoundOfWholeCosts(t *testing.T) {
	for spec, most := range map[string]int64{
		"gcra 30/m":                           56,
		"gcra 3000/m":                         5999 / 7 * 7,
		"gcra 6/m":                            0, // less than one call
		"tokenbucket 10/s burst=50":           56,
		"tokenbucket 30/m refill=interval":    56,
		"fixedwindow 30/m align=clock":        56,
		"movingwindow 30/m slots=12":          56,
		"all(gcra 10/s; gcra 100/m burst=20)": 14,
	} {
		p := policy(t, spec)
		calls := worstcase.Search(p, 7, p.Limit().Period, begin)
		require.Equal(t, most, worstcase.Most(calls, p.Limit().Period), spec)
		for _, c := range calls {
			require.Zero(t, c.Cost%7, spec)
		}
	}
}

func TestCallsAreAllowedInTheirOrder(t *testing.T) {
	p := policy(t, "movingwindow 7/m slots=3")
	var state []byte
	var log algotest.Log
	calls := worstcase.Search(p, 1, time.Minute, begin)
	require.NotEmpty(t, calls)
	for _, c := range calls {
		next, r, err := p.Step(nil, state, time.UnixMicro(c.At), c.Cost)
		require.NoError(t, err)
		require.True(t, r.Allowed, "%+v", c)
		state = next
		log.Add(time.UnixMicro(c.At), c.Cost)
	}
	require.Equal(t, log.Worst(time.Minute+time.Microsecond), worstcase.Most(calls, time.Minute))
	require.Equal(t, calls, worstcase.Search(p, 1, time.Minute, begin), "the search is deterministic")
}
