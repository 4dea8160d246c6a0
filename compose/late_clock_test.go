package compose_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// swappedClock is a clock of which every second reading is 1us before the one before
// it, as readings of concurrent goroutines are by the time they reach the store.
func swappedClock() func() time.Time {
	var readings atomic.Int64
	return func() time.Time {
		n := readings.Add(1) - 1
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n^1) * time.Microsecond)
	}
}

func TestARefundByALateClockIsNotLost(t *testing.T) {
	for _, spec := range []string{
		"gcra 10/h", "gcra 100/h burst=20", "tokenbucket 10/h", "tokenbucket 10/h refill=interval", "fixedwindow 10/h",
		"movingwindow 10/h", "movingwindow 10/h slots=6 trailing=whole", "all(gcra 10/h; fixedwindow 100/d)", "all(gcra 10/s; gcra 100/h)",
	} {
		for name, store := range map[string]storage.Store{"in memory": new(memory.Store), "by swaps": swapOnly{new(memory.Store)}} {
			l, err := compose.Options[call]{Clock: swappedClock()}.New(store,
				compose.Rule[call]{Name: "user", Policy: limitOf(t, spec)})
			require.NoError(t, err)
			kept := 0
			for range 100 {
				var attempts []*compose.Reservation[call]
				for range 4 {
					r, d, err := l.Reserve(background, call{}, 1)
					require.True(t, must(t, d, err).Allowed)
					attempts = append(attempts, r)
				}
				for _, r := range attempts {
					d, err := r.Settle(background, 0)
					if must(t, d, err).Results[0].Paid == 0 {
						kept++
					}
				}
			}
			require.Zero(t, kept, "%s, %s: refunds of 400 that gave nothing back", spec, name)
			d, err := l.Peek(background, call{})
			require.True(t, must(t, d, err).Results[0].Fresh, spec)
		}
	}
}
