package compose_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
				l, err := compose.Options[call]{Budget: time.Minute}.New(store, rules...)
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

func TestEveryRuleGoesByOneReadingOfTheClock(t *testing.T) {
	for _, store := range []storage.Store{new(memory.Store), contended{new(memory.Store)}} {
		readings := 0
		var o compose.Options[call]
		o.Clock = func() time.Time {
			readings++
			return origin.Add(time.Duration(readings) * time.Hour) // a second reading would show
		}
		l, err := o.New(store,
			compose.Rule[call]{Name: "a", Policy: limitOf(t, "gcra 2/d")},
			compose.Rule[call]{Name: "b", Key: byUser, Policy: limitOf(t, "gcra 3/d")},
			compose.Rule[call]{Name: "c", Key: byUser, Policy: limitOf(t, "all(fixedwindow 4/d; movingwindow 5/d)")})
		require.NoError(t, err)
		for calls := 1; calls <= 3; calls++ { // the last is denied
			d, err := l.Allow(background, call{user: "ann"})
			require.Equal(t, calls < 3, must(t, d, err).Allowed)
			require.Equal(t, calls, readings)
		}
	}
}

var origin = time.Unix(1e9, 0)
