package sluice_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// These tests promise that nobody gets around a limit by creating many keys. A store with
// MaxKeys must evict keys. The tests use a limiter, because only a limiter knows the priority
// of a record.

// floodSpecs have all algorithms, and stacks. One call uses at most a fifth of each limit, except
// in the short parts of two stacks: one call uses these up, and they are full again soon.
var floodSpecs = []string{
	"gcra 5/h", "gcra 100/m burst=20",
	"tokenbucket 5/h", "tokenbucket 5/h refill=interval", "tokenbucket 6/m burst=30 refill=interval",
	"fixedwindow 5/h", "fixedwindow 5/h align=clock", "fixedwindow 7/m",
	"movingwindow 5/h", "movingwindow 60/h slots=12", "movingwindow 6/m slots=6 trailing=whole",
	"all(gcra 10/s; fixedwindow 100/h)", "all(gcra 1/s; fixedwindow 100/h)",
	"all(gcra 5/s burst=1; movingwindow 1000/h slots=12 trailing=whole)",
	"all(fixedwindow 5/m align=clock; movingwindow 20/h slots=4)",
	"penalty(all(gcra 5/s burst=1; movingwindow 1000/h slots=12 trailing=whole); for=1s)",
}

// floodRule is a rule by name.
func floodRule(policy algo.Policy) sluice.Rule[string] {
	return sluice.Rule[string]{Name: "customer", Key: func(name string) string { return name }, Policy: policy}
}

// bounded returns the stores in memory that hold at most maxKeys keys of a rule: without the engine, and with it.
func bounded(maxKeys int) []storage.Store {
	return []storage.Store{&memory.Store{MaxKeys: maxKeys}, transactor{&memory.Store{MaxKeys: maxKeys}}}
}

// A rule with one key admits at most its bound, however many keys another rule has.
func TestFloodOfKeysDoesNotLiftASharedLimit(t *testing.T) {
	const maxKeys, keys = 10, 400
	for _, spec := range append([]string{"gcra 2/s", "gcra 1000/s burst=10"}, floodSpecs...) {
		for _, store := range bounded(maxKeys) {
			clock, shared := newClock(), mustPolicy(spec)
			l := newLimiter(t, sluice.Options[string]{Clock: clock.Now, DenialCacheTTL: -1}, store,
				floodRule(mustPolicy("fixedwindow 5/h")), sluice.Rule[string]{Name: "everyone", Policy: shared})
			began, admitted := clock.Now(), int64(0)
			for i := range keys {
				if i < maxKeys || i%100 == 0 {
					clock.advance(time.Second)
				}
				if must(t)(l.Allow(background, fmt.Sprint("customer ", i))).Allowed {
					admitted++
				}
				require.LessOrEqual(t, admitted, shared.Bound(clock.Now().Sub(began)+1), "%s: calls of %d customers", spec, i+1)
			}
		}
	}
}

// A key that has used up its limit is denied until its RetryAfter is over, while 10 times maxKeys random keys make one call each.
func TestFloodOfKeysDoesNotResetExhaustedKeys(t *testing.T) {
	const maxKeys, victims = 64, 8
	for _, spec := range floodSpecs {
		for seed := range uint64(2) {
			for _, store := range bounded(maxKeys) {
				random, clock, policy := rand.New(rand.NewPCG(seed, 0)), newClock(), mustPolicy(spec)
				l := newLimiter(t, sluice.Options[string]{Clock: clock.Now, DenialCacheTTL: -1}, store, floodRule(policy))
				window := longestPeriod(policy)
				var until [victims]time.Time
				for i := range until {
					until[i] = exhaust(t, l, clock, fmt.Sprint("victim ", i), window/100)
					clock.advance(time.Duration(random.Int64N(int64(window / 50))))
				}
				for i := range 10 * maxKeys {
					clock.advance(time.Duration(random.Int64N(int64(window / 300)))) // more than a window in all
					must(t)(l.Allow(background, fmt.Sprint("random ", random.Uint64())))
					if v := random.IntN(victims); clock.Now().Before(until[v]) {
						d := must(t)(l.Allow(background, fmt.Sprint("victim ", v)))
						require.False(t, d.Allowed, "%s: %v before its RetryAfter, after %d random keys", spec, until[v].Sub(clock.Now()), i+1)
					}
				}
			}
		}
	}
}

// exhaust uses up the limit of a key, and returns the end of its RetryAfter. In a stack it uses up
// the part whose wait is at least least.
func exhaust(t *testing.T, l *sluice.Limiter[string], clock *fakeClock, key string, least time.Duration) (until time.Time) {
	for range 10_000 {
		switch d := must(t)(l.Allow(background, key)); {
		case !d.Allowed && d.RetryAfter >= least:
			return clock.Now().Add(d.RetryAfter)
		case !d.Allowed:
			clock.advance(d.RetryAfter)
		}
	}
	t.Fatalf("%s is never denied for %v", key, least)
	return until
}

// longestPeriod returns the period of a policy, or of the slowest part of a stack.
func longestPeriod(p algo.Policy) (longest time.Duration) {
	stack := compose.StackOf(p)
	if stack == nil {
		return p.Limit().Period
	}
	for _, part := range stack.Parts() {
		longest = max(longest, part.Limit().Period)
	}
	return longest
}

// A refund during a penalty does not make its record worth evicting.
func TestFloodOfKeysEndsNoPenalty(t *testing.T) {
	l := newLimiter(t, sluice.Options[call]{}, &memory.Store{MaxKeys: 2000}, rulesOf("penalty(fixedwindow 20/15min; for=1h)")...)
	must(t)(l.AllowN(background, ann, 20))
	require.False(t, must(t)(l.Allow(background, ann)).Allowed)
	must(t)(l.Refund(background, ann, 18))
	for i := range 20_000 {
		must(t)(l.Allow(background, call{user: fmt.Sprint("flood ", i)}))
	}
	require.False(t, must(t)(l.Allow(background, ann)).Allowed)
}
