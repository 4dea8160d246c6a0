package backtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
			line.Allowed[0][line.bin]++
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
	for lasts, want := range map[time.Duration]time.Duration{
		0:                    time.Second,
		299 * time.Second:    time.Second,
		300 * time.Second:    5 * time.Second,
		50 * time.Minute:     30 * time.Second,
		49 * time.Minute:     10 * time.Second,
		24 * time.Hour:       10 * time.Minute,
		7 * 24 * time.Hour:   time.Hour,
		365 * 24 * time.Hour: 2 * 24 * time.Hour,
	} {
		line := newTimeline(1)
		line.at(time.Unix(0, int64(time.Hour)))
		line.at(time.Unix(0, int64(time.Hour+lasts)))
		require.Equal(t, want, line.done().Width, lasts)
	}
	for i := 1; i < len(widths); i++ {
		require.Zero(t, widths[i]%widths[i-1])
	}
}
