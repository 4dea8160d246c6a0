package sluice_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// These tests promise that nobody gets around a limit by creating many keys. A store with
// MaxKeys must evict keys. Two laws say which keys it may evict. They use a limiter, because
// only a limiter knows the priority of a record.

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
}

// boundedStore returns a store with at most maxKeys keys.
type boundedStore func(maxKeys int, clock *fakeClock) storage.Store

// sharedRuleHolds is the law that a rule with one key admits at most its bound, however many
// keys another rule has.
func sharedRuleHolds(spec string, newStore boundedStore) error {
	const maxKeys, keys = 10, 400
	clock := newClock()
	shared, err := compose.ParsePolicy(spec)
	if err != nil {
		return err
	}
	quota, err := compose.ParsePolicy("fixedwindow 5/h")
	if err != nil {
		return err
	}
	l, err := sluice.Options[string]{Clock: clock.Now, DenialCacheTTL: -1}.New(newStore(maxKeys, clock),
		sluice.Rule[string]{Name: "customer", Key: func(name string) string { return name }, Policy: quota},
		sluice.Rule[string]{Name: "everyone", Policy: shared})
	if err != nil {
		return err
	}
	began, admitted := clock.Now(), int64(0)
	for i := range keys {
		if i < maxKeys || i%100 == 0 {
			clock.advance(time.Second)
		}
		d, err := l.Allow(background, fmt.Sprint("customer ", i))
		if err != nil {
			return err
		}
		if d.Allowed {
			admitted++
		}
		if bound := shared.Bound(clock.Now().Sub(began) + 1); admitted > bound {
			return fmt.Errorf("%s: admitted %d calls of %d customers in %v, the bound is %d", spec, admitted, i+1, clock.Now().Sub(began), bound)
		}
	}
	return nil
}

// exhaustedKeysStayDenied is the law that a key that has used up its limit is denied until its
// RetryAfter is over, while 10 times maxKeys random keys make one call each.
func exhaustedKeysStayDenied(spec string, seed uint64, newStore boundedStore) error {
	const maxKeys, victims = 64, 8
	random, clock := rand.New(rand.NewPCG(seed, 0)), newClock()
	policy, err := compose.ParsePolicy(spec)
	if err != nil {
		return err
	}
	l, err := sluice.Options[string]{Clock: clock.Now, DenialCacheTTL: -1}.New(newStore(maxKeys, clock),
		sluice.Rule[string]{Name: "customer", Key: func(name string) string { return name }, Policy: policy})
	if err != nil {
		return err
	}
	window := longestPeriod(policy)
	var until [victims]time.Time
	for i := range until {
		if until[i], err = exhaust(l, clock, fmt.Sprint("victim ", i), window/100); err != nil {
			return err
		}
		clock.advance(time.Duration(random.Int64N(int64(window / 50))))
	}
	for i := range 10 * maxKeys {
		clock.advance(time.Duration(random.Int64N(int64(window / 300)))) // more than a window in all
		if _, err := l.Allow(background, fmt.Sprint("random ", random.Uint64())); err != nil {
			return err
		}
		v := random.IntN(victims)
		if clock.Now().Before(until[v]) {
			d, err := l.Allow(background, fmt.Sprint("victim ", v))
			if err != nil {
				return err
			}
			if d.Allowed {
				return fmt.Errorf("%s: an exhausted key is admitted %v before its RetryAfter, after %d random keys in a store of %d",
					spec, until[v].Sub(clock.Now()), i+1, maxKeys)
			}
		}
	}
	return nil
}

// exhaust uses up the limit of a key, and returns the end of its RetryAfter. In a stack it uses up
// the part whose wait is at least least.
func exhaust(l *sluice.Limiter[string], clock *fakeClock, key string, least time.Duration) (until time.Time, err error) {
	for range 10_000 {
		d, err := l.Allow(background, key)
		switch {
		case err != nil:
			return time.Time{}, err
		case !d.Allowed && d.RetryAfter >= least:
			return clock.Now().Add(d.RetryAfter), nil
		case !d.Allowed:
			clock.advance(d.RetryAfter)
		}
	}
	return time.Time{}, fmt.Errorf("%s is never denied for %v", key, least)
}

// longestPeriod returns the period of a policy, or of the slowest part of a stack.
func longestPeriod(p algo.Policy) (longest time.Duration) {
	stack, ok := p.(*compose.Stack)
	if !ok {
		return p.Limit().Period
	}
	for _, part := range stack.Parts() {
		longest = max(longest, part.Limit().Period)
	}
	return longest
}

func inMemory(maxKeys int, _ *fakeClock) storage.Store { return &memory.Store{MaxKeys: maxKeys} }

// byEngine makes the limiter use its engine.
func byEngine(maxKeys int, _ *fakeClock) storage.Store {
	return transactor{&memory.Store{MaxKeys: maxKeys}}
}

func TestFloodOfKeysDoesNotLiftASharedLimit(t *testing.T) {
	for _, spec := range append([]string{"gcra 2/s", "gcra 1000/s burst=10"}, floodSpecs...) {
		assert.NoError(t, sharedRuleHolds(spec, inMemory))
		assert.NoError(t, sharedRuleHolds(spec, byEngine))
	}
}

func TestFloodOfKeysDoesNotResetExhaustedKeys(t *testing.T) {
	for _, spec := range floodSpecs {
		for seed := range uint64(2) {
			assert.NoError(t, exhaustedKeysStayDenied(spec, seed, inMemory))
			assert.NoError(t, exhaustedKeysStayDenied(spec, seed, byEngine))
		}
	}
}
