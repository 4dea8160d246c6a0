package backtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
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

func TestWindowDropsExpiredAdmissions(t *testing.T) {
	var w Window
	limit := algo.Per(1, time.Minute)
	for now := range int64(10_000) {
		require.LessOrEqual(t, w.Add(limit, now*1e6, 1), int64(60))
	}
	require.LessOrEqual(t, cap(w.admitted), 200)
}
