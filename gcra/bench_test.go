package gcra_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
)

func BenchmarkStep(b *testing.B) {
	o := gcra.Options{Limit: algo.Per(1000, time.Second)}
	now := time.Unix(1e9, 0)
	var s gcra.State
	b.ReportAllocs()
	for b.Loop() {
		s, _ = gcra.Step(s, now, o)
		now = now.Add(time.Millisecond)
	}
}

func BenchmarkPolicyStep(b *testing.B) {
	p, err := gcra.New(gcra.Options{Limit: algo.Per(1000, time.Second)})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	var state, spare []byte
	b.ReportAllocs()
	for b.Loop() {
		next, _, _ := p.Step(spare[:0], state, now, 1)
		state, spare = next, state
		now = now.Add(time.Millisecond)
	}
}
