// These tests promise that observers do not allocate.
package observe

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
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
	for name, observer := range map[string]func(sluice.Event){
		"metrics": m.Observer("http"),
		"denied":  NewDenied(10).Observe,
		"each":    Each(m.Observer("http"), NewDenied(10).Observe),
	} {
		for _, e := range []sluice.Event{fullEvent(), failure} {
			require.Zero(t, testing.AllocsPerRun(100, func() { observer(e) }), name)
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

// BenchmarkLimiter measures a limiter in memory with observers, and without one. Without an
// observer, a limiter reads no clock and decides in place.
func BenchmarkLimiter(b *testing.B) {
	m, _ := newRegistered(b)
	denied := NewDenied(DefaultDenied)
	for _, observed := range []struct {
		name     string
		observer func(sluice.Event)
	}{
		{"no observer", nil},
		{"empty observer", func(sluice.Event) {}},
		{"metrics", m.Observer("http")},
		{"denied", denied.Observe},
		{"both", Each(m.Observer("http"), denied.Observe)},
	} {
		for _, spec := range []string{"gcra 1000000000/s", "gcra 1/24h"} {
			outcome := map[string]string{"gcra 1000000000/s": "allowed", "gcra 1/24h": "denied"}[spec]
			b.Run(observed.name+"/"+outcome, func(b *testing.B) {
				l, err := sluice.Options[string]{Observer: observed.observer}.New(nil,
					sluice.Rule[string]{Name: "client", Key: byItself, Spec: spec})
				require.NoError(b, err)
				ctx := context.Background()
				b.ReportAllocs()
				for b.Loop() {
					if _, err := l.Allow(ctx, "203.0.113.7"); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkMetrics(b *testing.B) {
	m, _ := newRegistered(b)
	observer := m.Observer("http")
	one := denialOf(denied("client", "203.0.113.7"))
	for name, e := range map[string]sluice.Event{"plain": one, "full": fullEvent()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				observer(e)
			}
		})
	}
}

// BenchmarkDenied denies one key, a few keys in turn, and new keys only, in one goroutine
// and in parallel.
func BenchmarkDenied(b *testing.B) {
	keys := make([]string, 1<<20)
	for i := range keys {
		keys[i] = "198.51.100." + strconv.Itoa(i)
	}
	for _, test := range []struct {
		name string
		keys int
	}{{"one key", 1}, {"few keys", 64}, {"flood", len(keys)}} {
		b.Run(test.name, func(b *testing.B) {
			d, i := NewDenied(DefaultDenied), 0
			b.ReportAllocs()
			for b.Loop() {
				d.add("client", keys[i%test.keys])
				i++
			}
		})
		b.Run(test.name+", parallel", func(b *testing.B) {
			var from atomic.Int64
			d := NewDenied(DefaultDenied)
			b.RunParallel(func(pb *testing.PB) {
				for i := int(from.Add(1)) * 12345; pb.Next(); i++ {
					d.add("client", keys[i%test.keys])
				}
			})
		})
	}
}
