// These tests promise that observers do not allocate.
package observe

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
)

// fullEvent changes every metric except that of errors.
func fullEvent() sluice.Event {
	e := denialOf(denied("client", "203.0.113.7"), denied("everyone", ""), shadow(denied("new", "203.0.113.7")))
	e.Decision.Attempts, e.Decision.Cached, e.Decision.Skew = 3, true, time.Second
	return e
}

func TestObserversDoNotAllocate(t *testing.T) {
	m, _ := newRegistered(t)
	failure := sluice.Event{Op: sluice.OpAllow, Outcome: sluice.Failed, Err: fmt.Errorf("down: %w", context.DeadlineExceeded)}
	for name, observer := range map[string]func(context.Context, sluice.Event){
		"metrics": m.Observer("http"),
		"denied":  NewDenied(10).Observe,
		"each":    Each(m.Observer("http"), NewDenied(10).Observe),
	} {
		for _, e := range []sluice.Event{fullEvent(), failure} {
			require.Zero(t, testing.AllocsPerRun(100, func() { observer(context.Background(), e) }), name)
		}
	}
}

// A flood of new keys is the most work. When all counters are in use, it allocates nothing
// either.
func TestFloodOfKeysDoesNotAllocate(t *testing.T) {
	d, next, keys := NewDenied(10), 0, make([]string, 10_000)
	for i := range keys {
		keys[i] = "198.51.100." + strconv.Itoa(i)
	}
	flood := func() {
		d.add("client", keys[next%len(keys)])
		next++
	}
	for range 5000 {
		flood()
	}
	require.Zero(t, testing.AllocsPerRun(2000, flood))
}

// A limiter without an observer reads no clock and decides in place.
func BenchmarkLimiter(b *testing.B) {
	m, _ := newRegistered(b)
	for name, observer := range map[string]func(context.Context, sluice.Event){
		"no observer": nil, "empty observer": func(context.Context, sluice.Event) {}, "metrics": m.Observer("http"), "denied": NewDenied(0).Observe,
	} {
		for outcome, spec := range map[string]string{"allowed": "gcra 1000000000/s", "denied": "gcra 1/24h"} {
			b.Run(name+"/"+outcome, func(b *testing.B) {
				l, err := sluice.Options[string]{Observer: observer}.New(nil, sluice.Rule[string]{Name: "client", Key: byItself, Spec: spec})
				require.NoError(b, err)
				for b.Loop() {
					if _, err := l.Allow(ctx, "203.0.113.7"); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkObservers(b *testing.B) {
	m, _ := newRegistered(b)
	flood := make([]sluice.Event, 1<<20)
	for i := range flood {
		flood[i] = denialOf(denied("client", "198.51.100."+strconv.Itoa(i)))
	}
	for name, test := range map[string]struct {
		observer func(context.Context, sluice.Event)
		events   []sluice.Event
	}{
		"metrics":             {m.Observer("http"), flood[:1]},
		"metrics, full event": {m.Observer("http"), []sluice.Event{fullEvent()}},
		"denied, one key":     {NewDenied(0).Observe, flood[:1]},
		"denied, few keys":    {NewDenied(0).Observe, flood[:64]},
		"denied, flood":       {NewDenied(0).Observe, flood},
	} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				test.observer(context.Background(), test.events[i%len(test.events)])
			}
		})
	}
}
