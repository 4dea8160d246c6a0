package tokenbucket_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/tokenbucket"
)

// refills are the same rate with both kinds of refill.
var refills = []tokenbucket.Options{
	{Limit: algo.Per(1000, time.Second)},
	{Limit: algo.Per(100, 100*time.Millisecond), Refill: tokenbucket.Interval},
}

func BenchmarkStep(b *testing.B) {
	for _, o := range refills {
		b.Run(o.Refill.String(), func(b *testing.B) {
			now := time.Unix(1e9, 0)
			var s tokenbucket.State
			b.ReportAllocs()
			for range b.N {
				s, _ = tokenbucket.Step(s, now, o)
				now = now.Add(time.Millisecond)
			}
		})
	}
}

func BenchmarkPolicyStep(b *testing.B) {
	for _, o := range refills {
		b.Run(o.Refill.String(), func(b *testing.B) {
			p, err := tokenbucket.New(o)
			if err != nil {
				b.Fatal(err)
			}
			now := time.Unix(1e9, 0)
			var state, spare []byte
			b.ReportAllocs()
			for range b.N {
				next, _, _ := p.Step(spare[:0], state, now, 1)
				state, spare = next, state
				now = now.Add(time.Millisecond)
			}
		})
	}
}
