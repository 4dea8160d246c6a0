package gcra_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
)

// The loops are b.N ones, in which the compiler may inline what it would inline
// for a caller.

var allowed bool

func BenchmarkStep(b *testing.B) {
	o := gcra.Options{Limit: algo.Per(1000, time.Second)}
	for _, pace := range paces {
		b.Run(pace.name, func(b *testing.B) {
			var s gcra.State
			var r algo.Result
			now := y2k
			b.ReportAllocs()
			for b.Loop() {
				s, r = gcra.Step(s, now, o)
				allowed = r.Allowed
				now = now.Add(pace.Duration)
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
	for _, pace := range paces {
		b.Run(pace.name, func(b *testing.B) {
			var state, spare []byte
			now := y2k
			b.ReportAllocs()
			for b.Loop() {
				next, r, _ := p.Step(spare[:0], state, now, 1)
				allowed = r.Allowed
				state, spare = next, state
				now = now.Add(pace.Duration)
			}
		})
	}
}

// paces are how often a request comes, under 1000 per second.
var paces = []struct {
	name string
	time.Duration
}{
	{"steady", time.Millisecond},
	{"denied", 100 * time.Microsecond},
	{"fresh", time.Second},
}
