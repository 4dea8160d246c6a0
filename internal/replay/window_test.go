package replay

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWindowAddsUpTheLastPeriod compares with a plain list of all that was
// admitted.
func TestWindowAddsUpTheLastPeriod(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var w window
		var log [][2]int64
		now, period := r.Int64N(1000), 1+r.Int64N(50)
		for range 200 {
			now += r.Int64N(r.Int64N(30) + 1)
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

func TestWindowForgetsWhatItNeedsNoMore(t *testing.T) {
	var w window
	for now := range int64(10_000) {
		w.add(now*1e9, 1, 60e9)
	}
	require.Less(t, cap(w.runs), 2*60*10)
	require.EqualValues(t, 60, w.add(10_000e9-1e9, 0, 60e9))
}

// BenchmarkWindow adds to a window that holds very many instants, which must not
// make it slower.
func BenchmarkWindow(b *testing.B) {
	var w window
	for i := 0; b.Loop(); i++ {
		w.add(int64(i)*36e6, 1, 3600e9)
	}
}
