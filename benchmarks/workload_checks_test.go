package benchmarks

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// runFor runs four callers for 5ms and checks the result.
func runFor(c serverLimiter, decide decideFunc) error {
	p := loadGenerator{decide: decide, keys: tenKeys(), callers: 4, expects: isAllowed}.run(5 * time.Millisecond)
	return c.check(p)
}

func TestFailedCallsAreReported(t *testing.T) {
	calls := make(chan bool, 1)
	failsOnce := func(context.Context, string) (bool, error) {
		select {
		case calls <- true:
			return false, errors.New("the store is down")
		default:
			return true, nil
		}
	}
	require.ErrorContains(t, runFor(serverLimiter{name: "saboteur"}, failsOnce), "the first with: the store is down")
	require.NoError(t, runFor(serverLimiter{name: "gives up", mayFail: true}, failsOnce))
}

func TestWrongDecisionsAreReported(t *testing.T) {
	denies := func(context.Context, string) (bool, error) { return false, nil }
	require.ErrorContains(t, runFor(serverLimiter{name: "saboteur"}, denies), "were allowed or denied wrongly")
}

func TestEveryCallHasADeadline(t *testing.T) {
	needsDeadline := func(ctx context.Context, _ string) (bool, error) {
		if _, has := ctx.Deadline(); !has || ctx.Err() != nil {
			return false, errors.New("no deadline")
		}
		return true, nil
	}
	for _, keeps := range []bool{false, true} {
		c := loadGenerator{decide: needsDeadline, keys: tenKeys(), callers: 2, expects: isAllowed, sharesContext: keeps}
		p := c.run(5 * time.Millisecond)
		require.NoError(t, serverLimiter{}.check(p))
		require.Positive(t, p.Calls)
	}
}

// measurementOf returns a measurement in which each call takes that long.
func measurementOf(perSecond float64, latency time.Duration) measurement {
	p := measurement{PerSecond: perSecond, Latencies: newLatencies()}
	p.Latencies.add(latency)
	return p
}

func TestMedianRoundDecidesAGoal(t *testing.T) {
	w := work{name: "work", limiters: []serverLimiter{{name: "ours"}, {name: "peer"}}}
	turns := map[string][]measurement{
		"ours": {measurementOf(20, 10), measurementOf(30, 20), measurementOf(10, 90)},
		"peer": {measurementOf(10, 20), measurementOf(10, 20), measurementOf(10, 20)},
	}
	for _, c := range []struct {
		goal  ratio
		ratio float64
		met   bool
	}{
		{ratio{to: "peer", goal: 2}, 2, true},
		{ratio{to: "peer", goal: 2.1}, 2, false},
		{ratio{to: "peer", goal: 1, p99: true}, 1, true},
		{ratio{to: "peer", goal: 0.9, p99: true}, 1, false},
	} {
		goal := w.compareRounds(c.goal, turns)
		require.Equal(t, c.ratio, goal.Ratio)
		require.Equal(t, c.met, goal.Met(), describe(goal))
	}
}

// redis_rate sends each denied call to the server.
func TestRedisTripsCountsRoundTrips(t *testing.T) {
	w := work{area: "redis", name: "denied", keys: 1, goroutines: 1, denied: true, limiters: []serverLimiter{redisRate}}
	decide := redisRate.open(t, w.count(), w.period())
	loadGenerator{decide: decide, keys: w.sequence(), callers: 1, expects: isEither}.run(10 * time.Millisecond)
	const calls = 100
	trips := redisTrips(t, func() {
		for range calls {
			_, err := decide.call("denied")
			require.NoError(t, err)
		}
	})
	require.EqualValues(t, calls, trips)
}

func TestWorkloadsHaveUniqueNames(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range workloads() {
		require.False(t, seen[w.title()], w.title())
		seen[w.title()] = true
		for _, g := range w.goals {
			w := w.onlyGoals()
			require.Condition(t, func() bool {
				for _, c := range w.limiters[1:] {
					if c.name == g.to {
						return true
					}
				}
				return false
			}, "%s: no limiter is called %s", w.title(), g.to)
		}
	}
}
