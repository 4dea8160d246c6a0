package backtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// TestTimelineCountsAtTheRightTimes: random requests are counted one by one and by the timeline.
func TestTimelineCountsAtTheRightTimes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		line := newTimeline(1)
		longest := int64(time.Second) << r.IntN(22) // 49 days
		var times []int64
		now := r.Int64N(1e18)
		for range 300 {
			now += r.Int64N(1 + r.Int64N(longest))
			times = append(times, now)
			line.at(time.Unix(0, now))
			line.count(0, true)
		}
		done := line.done()
		require.LessOrEqual(t, len(done.Allowed[0]), Bins)
		require.Zero(t, done.Start.UnixNano()%int64(done.Width))

		want := make([]int64, len(done.Allowed[0]))
		for _, at := range times {
			want[(at-done.Start.UnixNano())/int64(done.Width)]++
		}
		require.Equal(t, want, done.Allowed[0])
	}
}

func TestBinWidthsAreRound(t *testing.T) {
	tracetest.Answers(t, "testdata/widths.txt", func(text string) string {
		lasts, err := time.ParseDuration(text)
		require.NoError(t, err)
		line := newTimeline(1)
		line.at(time.Unix(0, int64(time.Hour)))
		line.at(time.Unix(0, int64(time.Hour+lasts)))
		return line.done().Width.String()
	})
	for i := 1; i < len(widths); i++ {
		require.Zero(t, widths[i]%widths[i-1])
	}
}

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
