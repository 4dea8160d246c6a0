package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
)

// noon is the beginning of an hour.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// spenders are limiters with one rule. Each has its own connections to the database, as in a process of its own, and its own
// clock, which does not advance by itself. So the number of allowed calls is known exactly.
type spenders struct {
	limiters []*sluice.Limiter[string]
	clocks   []time.Time
}

func newSpenders(t *testing.T, address, spec string, n int) *spenders {
	t.Helper()
	s := &spenders{clocks: make([]time.Time, n)}
	namespace := fmt.Sprintf("%s %x", spec, rand.Uint64())
	for i := range n {
		limiter, err := sluice.Options[string]{
			Namespace: namespace, Timeout: longTimeout, Clock: func() time.Time { return s.clocks[i] },
		}.New(openStore(t, address), sluice.PerKey(spec))
		require.NoError(t, err)
		s.limiters = append(s.limiters, limiter)
	}
	return s
}

// spend makes calls by several callers of each limiter until their keys are denied. Two keys are shared by all limiters, and each
// limiter has one of its own. It returns how many calls were allowed for each key.
func (s *spenders) spend(t *testing.T) map[string]int64 {
	t.Helper()
	const callers, noLimit = 8, 1000
	counts := map[string]*atomic.Int64{"k": {}, "l": {}}
	for i := range s.limiters {
		counts[fmt.Sprint("own ", i)] = new(atomic.Int64)
	}
	require.NoError(t, concurrently(callers*len(s.limiters), func(caller int) error {
		i := caller % len(s.limiters)
		keys := []string{"k", fmt.Sprint("own ", i), "l"}
		for k := range keys {
			key := keys[(k+caller)%len(keys)]
			for range noLimit {
				d, err := s.limiters[i].Allow(context.Background(), key)
				if err != nil {
					return err
				}
				if !d.Allowed {
					break
				}
				counts[key].Add(1)
			}
		}
		return nil
	}))
	allowed := map[string]int64{}
	for key, n := range counts {
		allowed[key] = n.Load()
	}
	return allowed
}

// At each time, four limiters together admit exactly what the policy allows for a key.
func TestLimitersTogetherAdmitExactlyTheLimit(t *testing.T) {
	const minute, instant = time.Minute, time.Nanosecond
	for name, address := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := address(t)
			for _, c := range []struct {
				spec string
				at   []time.Duration
				want []int64
			}{
				{"gcra 10/h burst=7", []time.Duration{0, 6*minute - instant, 6 * minute, 18 * minute, 48 * time.Hour}, []int64{7, 0, 1, 2, 7}},
				{"tokenbucket 10/h burst=7", []time.Duration{0, 6*minute - instant, 6 * minute, 18 * minute, 48 * time.Hour}, []int64{7, 0, 1, 2, 7}},
				{"tokenbucket 4/h burst=7 refill=interval", []time.Duration{0, time.Hour - instant, time.Hour, 3 * time.Hour}, []int64{7, 0, 4, 7}},
				{"fixedwindow 5/h", []time.Duration{5 * minute, 65*minute - instant, 65 * minute, 125 * minute}, []int64{5, 0, 5, 5}},
				{"fixedwindow 5/h align=clock", []time.Duration{5 * minute, time.Hour - instant, time.Hour, 2 * time.Hour}, []int64{5, 0, 5, 5}},
				{"movingwindow 8/h slots=4 trailing=whole", []time.Duration{0, 75*minute - instant, 75 * minute}, []int64{8, 0, 8}},
				{"movingwindow 8/h slots=4", []time.Duration{0, time.Hour, 75*minute - instant, 75 * minute}, []int64{8, 0, 7, 1}},
				{"all(gcra 10/h burst=7; fixedwindow 9/h)", []time.Duration{0, 6 * minute, 12 * minute, 18 * minute}, []int64{7, 1, 1, 0}},
			} {
				s := newSpenders(t, database, c.spec, 4)
				for round, at := range c.at {
					for i := range s.clocks {
						s.clocks[i] = noon.Add(at)
					}
					for key, got := range s.spend(t) {
						require.Equal(t, c.want[round], got, "%s, key %q, at %v", c.spec, key, at)
					}
				}
			}
		})
	}
}

// The clocks of four limiters differ. In any order of the calls, they admit at least what one limiter admits at one time, and at
// most the Bound of the time between the first and the last clock.
func TestLimitersWithSkewedClocksStayWithinTheBound(t *testing.T) {
	for name, address := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := address(t)
			for _, spec := range []string{
				"gcra 1/h burst=3", "tokenbucket 1/h burst=3", "tokenbucket 2/h burst=3 refill=interval", "fixedwindow 5/h", "movingwindow 8/h slots=4 trailing=whole",
			} {
				s, policy := newSpenders(t, database, spec, 4), sluice.MustPolicy(spec)
				for i, skew := range []time.Duration{-time.Hour, 0, 5 * time.Second, time.Hour} {
					s.clocks[i] = noon.Add(skew)
				}
				got := s.spend(t)["k"]
				require.GreaterOrEqual(t, got, policy.Bound(1), spec)
				require.LessOrEqual(t, got, policy.Bound(2*time.Hour+1), spec)
				require.Zero(t, s.spend(t)["k"], "%s, again", spec)
			}
		})
	}
}
