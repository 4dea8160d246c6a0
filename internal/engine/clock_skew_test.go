package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
)

// skews are how far the clock of a process is ahead of the server's clock. A test cannot set the local
// clock, so it sets the server's clock back.
var skews = []time.Duration{-time.Hour, 0, 5 * time.Second, time.Hour}

var clockWays = []way{onServer, inTransaction, onlySwaps}

func TestResultsDoNotDependOnTheLocalClock(t *testing.T) {
	type result struct {
		allowed, cached bool
		at              time.Duration // by the server's clock, since the start
		retry           time.Duration
	}
	for _, w := range clockWays {
		var want []result
		for _, ahead := range skews {
			var got []result
			forEachWay(t, []way{w}, engine.Options{}, func(b *fixture) {
				b.store.clock = func() time.Time { return time.Now().Add(-ahead) }
				began := b.store.clock()
				b.store.takes = 3 * time.Millisecond
				for i := range 40 {
					c := b.decide(newCall(spacing(100*time.Millisecond), "k"))
					require.NoError(b, c.err)
					at := time.Duration(0)
					if !c.stats.Cached {
						at = c.times[len(c.times)-1].Sub(began)
					}
					got = append(got, result{c.allowed, c.stats.Cached, at, c.retry})
					time.Sleep(time.Duration(i%7) * 9 * time.Millisecond)
				}
			})
			if want == nil {
				want = got
			}
			require.Equal(t, want, got, "%s, %v ahead", w.name, ahead)
		}
	}
}
