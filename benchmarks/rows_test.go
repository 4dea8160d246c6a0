package benchmarks

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// runFor lets four callers of a decider work for a moment, and checks their pace.
func runFor(c contender, decide decider) error {
	p := crowd{decide: decide, keys: newTraffic(10), callers: 4, wanted: isAllowed}.run(5 * time.Millisecond)
	return c.check(p)
}

func TestALimiterThatFailsIsReported(t *testing.T) {
	calls := make(chan bool, 1)
	failsOnce := func(context.Context, string) (bool, error) {
		select {
		case calls <- true:
			return false, errors.New("the store is away")
		default:
			return true, nil
		}
	}
	require.ErrorContains(t, runFor(contender{name: "saboteur"}, failsOnce), "the first with: the store is away")
	require.NoError(t, runFor(contender{name: "gives up", mayFail: true}, failsOnce))
}

func TestAWrongDecisionIsReported(t *testing.T) {
	denies := func(context.Context, string) (bool, error) { return false, nil }
	require.ErrorContains(t, runFor(contender{name: "saboteur"}, denies), "were allowed or denied wrongly")
}

func TestEveryCallHasADeadline(t *testing.T) {
	needsDeadline := func(ctx context.Context, _ string) (bool, error) {
		if _, has := ctx.Deadline(); !has || ctx.Err() != nil {
			return false, errors.New("no deadline")
		}
		return true, nil
	}
	for _, keeps := range []bool{false, true} {
		c := crowd{decide: needsDeadline, keys: newTraffic(10), callers: 2, wanted: isAllowed, keepsContext: keeps}
		p := c.run(5 * time.Millisecond)
		require.NoError(t, contender{}.check(p))
		require.Positive(t, p.Calls)
	}
}

// paceOf has calls that take so long each.
func paceOf(perSecond float64, latency time.Duration) pace {
	p := pace{PerSecond: perSecond, Latencies: newLatencies()}
	p.Latencies.add(latency)
	return p
}

func TestTheMedianRoundDecidesAGoal(t *testing.T) {
	w := work{name: "work", contenders: []contender{{name: "ours"}, {name: "peer"}}}
	turns := map[string][]pace{
		"ours": {paceOf(20, 10), paceOf(30, 20), paceOf(10, 90)},
		"peer": {paceOf(10, 20), paceOf(10, 20), paceOf(10, 20)},
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
		goal := w.judge(c.goal, turns)
		require.Equal(t, c.ratio, goal.Ratio)
		require.Equal(t, c.met, goal.Met(), sentence(goal))
	}
}

// redis_rate asks the server for each denial.
func TestRoundTripsOfDenialsAreCounted(t *testing.T) {
	w := work{area: "redis", name: "denied", keys: 1, goroutines: 1, denied: true, contenders: []contender{redisRate}}
	decide := redisRate.open(t, w.count(), w.period())
	crowd{decide: decide, keys: w.traffic(), callers: 1, wanted: isAnything}.run(10 * time.Millisecond)
	const calls = 100
	trips := redisTrips(t, func() {
		for range calls {
			_, err := decide.ask("denied")
			require.NoError(t, err)
		}
	})
	require.EqualValues(t, calls, trips)
}

func TestEveryRowHasItsOwnName(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range works() {
		require.False(t, seen[w.title()], w.title())
		seen[w.title()] = true
		for _, g := range w.goals {
			w := w.onlyGoals()
			require.Condition(t, func() bool {
				for _, c := range w.contenders[1:] {
					if c.name == g.to {
						return true
					}
				}
				return false
			}, "%s: no contender is called %s", w.title(), g.to)
		}
	}
}
