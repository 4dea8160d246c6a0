package fixedwindow_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
)

var aligned = []fixedwindow.Options{
	{Limit: algo.Per(1000, time.Second)},
	{Limit: algo.Per(1000, time.Second), Align: fixedwindow.AlignClock},
}

func BenchmarkStep(b *testing.B) {
	for _, o := range aligned {
		b.Run(o.Align.String(), func(b *testing.B) {
			now := time.Unix(1e9, 0)
			var s fixedwindow.State
			b.ReportAllocs()
			for range b.N {
				s, _ = fixedwindow.Step(s, now, o)
				now = now.Add(time.Millisecond)
			}
		})
	}
}

func BenchmarkPolicyStep(b *testing.B) {
	for _, o := range aligned {
		b.Run(o.Align.String(), func(b *testing.B) {
			p, err := fixedwindow.New(o)
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
