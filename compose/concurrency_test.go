package compose_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// Two processes that have the same rules in opposite orders, asked from many
// goroutines at once: no deadlock, and every unit is counted under both rules.
func TestRulesInOppositeOrdersNeitherDeadlockNorMiscount(t *testing.T) {
	rules := []compose.Rule[call]{
		{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 50/d")},
		{Name: "resource", Key: byResource, Policy: limitOf(t, "gcra 60/d")},
		{Name: "everyone", Policy: limitOf(t, "gcra 80/d")},
	}
	backwards := []compose.Rule[call]{rules[2], rules[1], rules[0]}
	for name, store := range map[string]storage.Store{
		"under the store's lock": new(memory.Store),
		"by compare-and-swap":    contended{new(memory.Store)},
	} {
		t.Run(name, func(t *testing.T) {
			var allowed atomic.Int64
			var wg sync.WaitGroup
			for _, rules := range [][]compose.Rule[call]{rules, backwards} {
				l, err := compose.Options[call]{Timeout: time.Minute}.New(store, rules...)
				require.NoError(t, err)
				for caller := range 4 {
					wg.Go(func() {
						for range 25 {
							d, err := l.Allow(background, call{user: string(rune('a' + caller%2)), resource: "r"})
							if err != nil {
								t.Error(err)
							}
							if d.Allowed {
								allowed.Add(1)
							}
						}
					})
				}
			}
			wg.Wait()
			require.EqualValues(t, 60, allowed.Load(), "200 asked, 100 for each of two users")
		})
	}
}

// dated is a policy that notes the times it is asked at.
type dated struct {
	algo.Policy
	times map[time.Time]bool
}

func (d dated) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	d.times[now] = true
	return d.Policy.Step(dst, state, now, cost)
}

func (d dated) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	d.times[now] = true
	return d.Policy.Peek(state, now, cost)
}

func TestEveryRuleGoesByOneReadingOfTheClock(t *testing.T) {
	for _, store := range []storage.Store{new(memory.Store), contended{new(memory.Store)}} {
		now := time.Unix(1e9, 0)
		times := make(map[time.Time]bool)
		policy := func(spec string) algo.Policy { return dated{limitOf(t, spec), times} }
		l, err := compose.Options[call]{Clock: func() time.Time {
			now = now.Add(time.Second) // a second reading would show
			return now
		}}.New(store,
			compose.Rule[call]{Name: "a", Policy: policy("gcra 5/d")},
			compose.Rule[call]{Name: "b", Key: byUser, Policy: policy("gcra 2/d")},
			compose.Rule[call]{Name: "c", Key: byUser, Policy: policy("all(fixedwindow 4/d; movingwindow 5/d)")})
		require.NoError(t, err)
		clear(times)                          // New has looked at the policies
		for calls := 1; calls <= 3; calls++ { // the last is denied, and the others looked at
			d, err := l.Allow(background, call{user: "ann"})
			require.Equal(t, calls < 3, must(t, d, err).Allowed)
			require.Equal(t, 1, d.Attempts)
			require.Len(t, times, calls)
		}
	}
}
