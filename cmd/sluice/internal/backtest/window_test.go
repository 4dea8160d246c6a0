package backtest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWindowAddsUpTheLastPeriod: a plain list of all allowed requests has the same sum.
func TestWindowAddsUpTheLastPeriod(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var w window
		var log [][2]int64
		tick := []int64{1, 1e3, 250e3, 1e6, 7e6}[r.IntN(5)]
		now, period := r.Int64N(1000)*tick, 1+r.Int64N(50*tick)
		for range 200 {
			now += r.Int64N(r.Int64N(30)+1) * tick
			units := 1 + r.Int64N(5)
			log = append(log, [2]int64{now, units})

			var want int64
			for _, e := range log {
				if e[0] > now-period {
					want += e[1]
				}
			}
			require.Equal(t, want, w.add(now, units, period), "at %d, period %d, of %v", now, period, log)
		}
	}
}

func TestWindowDropsOldRuns(t *testing.T) {
	var w window
	for now := range int64(10_000) {
		w.add(now*1e6, 1, 60e6)
	}
	require.LessOrEqual(t, cap(w.runs), 160)
	require.EqualValues(t, 60, w.add(10_000e6-1e6, 0, 60e6))
}
