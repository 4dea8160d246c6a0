package gcra_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
)

// The loops use b.N, because b.Loop prevents inlining before Go 1.26.

var allowed bool

func BenchmarkStep(b *testing.B) {
	o := gcra.Options{Limit: algo.Per(1000, time.Second)}
	for _, interval := range intervals {
		b.Run(interval.name, func(b *testing.B) {
			var s gcra.State
			var r algo.Result
			now := y2k
			b.ReportAllocs()
			for b.Loop() {
				s, r = gcra.Step(s, now, o)
				allowed = r.Allowed
				now = now.Add(interval.Duration)
			}
		})
	}
}

func BenchmarkPolicyStep(b *testing.B) {
	var p algo.Policy
	p, err := gcra.New(gcra.Options{Limit: algo.Per(1000, time.Second)})
	if err != nil {
		b.Fatal(err)
	}
	for _, interval := range intervals {
		b.Run(interval.name, func(b *testing.B) {
			var state, spare []byte
			now := y2k
			b.ReportAllocs()
			for b.Loop() {
				next, r, _ := p.Step(spare[:0], state, now, 1)
				allowed = r.Allowed
				state, spare = next, state
				now = now.Add(interval.Duration)
			}
		})
	}
}

// intervals are the times between requests, under 1000 per second.
var intervals = []struct {
	name string
	time.Duration
}{
	{"steady", time.Millisecond},
	{"denied", 100 * time.Microsecond},
	{"fresh", time.Second},
}
