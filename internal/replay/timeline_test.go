package replay

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTimelineCountsWhereTimeIs puts requests that are known one by one beside
// the stretches they were counted in.
func TestTimelineCountsWhereTimeIs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		line := newTimeline(1)
		var times []int64
		now := r.Int64N(1e18)
		for range 300 {
			now += r.Int64N(1 + r.Int64N(int64(time.Hour)))
			times = append(times, now)
			line.at(now)
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
