package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
)

// skews are by how much the clock of a process is ahead of the server's. The local clock of a
// process cannot be set: in these tests the server's clock is behind by as much.
var skews = []time.Duration{-time.Hour, 0, 5 * time.Second, time.Hour}

var clockWays = []way{onServer, inTransaction, bySwapsClock, callerWays[0], callerWays[1]}

// The same calls get the same answers, however much the local clock is ahead of the server's.
func TestTheLocalClockDecidesNothing(t *testing.T) {
	type answer struct {
		allowed, cached bool
		at              time.Duration // by the server's clock, since the start
		retry           time.Duration
	}
	for _, w := range clockWays {
		var want []answer
		for _, ahead := range skews {
			var got []answer
			each(t, []way{w}, engine.Options{}, func(b *bench) {
				b.store.clock = func() time.Time { return time.Now().Add(-ahead) }
				began := b.store.clock()
				b.store.takes = 3 * time.Millisecond
				for i := range 40 {
					c := b.decide(newCall(spacing(100*time.Millisecond), "k"))
					require.NoError(b, c.err)
					at := time.Duration(0)
					if !c.how.Cached {
						at = c.times[len(c.times)-1].Sub(began)
					}
					got = append(got, answer{c.allowed, c.how.Cached, at, c.retry})
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

// A fleet whose clocks disagree admits no more than the limit, if nobody hands in a clock. With the
// clocks of its processes it would admit one call for each process.
func TestAFleetWithSkewedClocksStaysWithinTheLimit(t *testing.T) {
	const pause, rounds = 100 * time.Millisecond, 50
	for _, w := range clockWays {
		for name, own := range map[string]bool{"the server's clock": false, "clocks of the processes": true} {
			t.Run(w.name+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store, admitted := newFake(), 0
					var fleet []*bench
					for _, ahead := range skews {
						o := engine.Options{}
						if own {
							o.Clock = func() time.Time { return time.Now().Add(ahead) }
						}
						fleet = append(fleet, &bench{T: t, way: w, store: store, engine: engine.New(w.open(store), o)})
					}
					began := time.Now()
					for range rounds {
						for _, b := range fleet {
							c := b.decide(newCall(spacing(pause), "k"))
							require.NoError(t, c.err)
							if c.allowed {
								admitted++
							}
						}
						time.Sleep(7 * time.Millisecond)
					}
					bound := 1 + int(time.Since(began)/pause)
					if own {
						require.Greater(t, admitted, bound)
					} else {
						require.LessOrEqual(t, admitted, bound)
						require.GreaterOrEqual(t, admitted, bound/2)
					}
				})
			})
		}
	}
}
