package simulate_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate"
	"github.com/sluice-go/sluice/internal/costed"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// shared is a store that limiters use as if it were on a server.
type shared struct{ storage.Store }

// randomStream returns calls of one client in busy and in quiet times, not two at the same instant.
func randomStream(random *rand.Rand, n int) simulate.Stream {
	var at []time.Duration
	last, gap := time.Duration(0), time.Second
	for range n {
		if random.IntN(50) == 0 {
			gap = time.Millisecond << random.IntN(12)
		}
		last += time.Microsecond + time.Duration(random.Int64N(int64(gap))).Truncate(time.Microsecond)
		at = append(at, last)
	}
	return stream(at...)
}

func TestCallsBoughtAheadAreDecidedAsByALimiter(t *testing.T) {
	for seed, spec := range []string{"gcra 100/s", "tokenbucket 200/m", "fixedwindow 400/m", "movingwindow 300/m slots=4", "all(gcra 100/s; fixedwindow 900/m)", "penalty(fixedwindow 400/m; for=3s)"} {
		for processes := 1; processes <= 3; processes++ {
			synctest.Test(t, func(t *testing.T) {
				s := randomStream(rand.New(rand.NewPCG(uint64(seed), uint64(processes))), 3000)
				all, o := calls(t, sluice.MustPolicy(spec), s, simulate.Options{
					Skews: make([]time.Duration, processes), Prepay: simulate.Prepay{Calls: 20, For: 100 * time.Millisecond},
				})
				began, store := time.Now(), shared{&memory.Store{Clock: time.Now}}
				var limiters []*sluice.Limiter[string]
				for range processes {
					l, err := sluice.Options[string]{Prepay: sluice.Prepay{Calls: 20, For: 100 * time.Millisecond}}.New(store, sluice.PerKey(spec))
					require.NoError(t, err)
					limiters = append(limiters, l)
				}
				prepaid := int64(0)
				for i, c := range all {
					time.Sleep(time.Until(began.Add(time.Duration(c.At-simulate.Epoch.UnixMicro()) * time.Microsecond)))
					d, err := limiters[c.Process].Allow(t.Context(), "ann")
					require.NoError(t, err)
					require.Equal(t, d.Prepaid, c.Prepaid, "%s, call %d of %d processes", spec, i, processes)
					want := d.Results[0].Result
					want.Skew = 0
					require.Equal(t, want, c.Result, "%s, call %d of %d processes", spec, i, processes)
					if d.Prepaid {
						prepaid++
					}
				}
				require.Equal(t, prepaid, o.Prepaid)
				require.Greater(t, o.Prepaid, o.Calls/20, spec)
				require.Positive(t, o.Denied, spec)
				limit := sluice.MustPolicy(spec).Limit()
				require.LessOrEqual(t, o.Worst, sluice.MustPolicy(spec).Bound(limit.Period+100*time.Millisecond))
			})
		}
	}
}

func TestPrepayMustHaveATime(t *testing.T) {
	_, err := simulate.New(costed.One(sluice.MustPolicy("gcra 1/s")), stream(0), simulate.Options{Prepay: simulate.Prepay{Calls: 1}})
	require.ErrorContains(t, err, "want at least 0 for more than 0s")
}
