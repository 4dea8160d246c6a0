package simulate_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate"
	"github.com/sluice-go/sluice/internal/costed"
)

// With many calls between two samples, the level still shows that each window begins with the whole
// limit and ends with nothing.
func TestLevelKeepsTheExtremesOfManyCalls(t *testing.T) {
	stream := simulate.Steady(simulate.Shape{Pace: 100 * time.Millisecond, Length: time.Hour, Clients: 1})
	run, err := simulate.New(costed.One(sluice.MustPolicy("fixedwindow 30/m align=clock")), stream, simulate.Options{})
	require.NoError(t, err)
	begin := simulate.Epoch.UnixMicro()
	level := &simulate.Level{From: begin, To: begin + time.Hour.Microseconds(), Samples: 61}
	run.Watch(level)
	for _, err := range run.Calls() {
		require.NoError(t, err)
	}
	require.True(t, slices.IsSorted(level.At))
	require.LessOrEqual(t, len(level.At), 11*level.Samples)
	low, high := map[int64]int64{}, map[int64]int64{}
	for i, at := range level.At {
		minute, left := (at-begin)/time.Minute.Microseconds(), level.Left[i]
		if _, ok := low[minute]; !ok {
			low[minute], high[minute] = left, left
		}
		low[minute], high[minute] = min(low[minute], left), max(high[minute], left)
	}
	for minute := range int64(60) {
		require.Zero(t, low[minute], "minute %d", minute)
		require.Equal(t, int64(30), high[minute], "minute %d", minute)
	}
}
