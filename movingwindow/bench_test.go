package movingwindow_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/movingwindow"
)

var slotCounts = []int{1, 12, 60}

func BenchmarkStep(b *testing.B) {
	for _, slots := range slotCounts {
		b.Run(fmt.Sprint("slots=", slots), func(b *testing.B) {
			o := movingwindow.Options{Limit: algo.Per(1000, time.Second), Slots: slots}
			now := time.Unix(1e9, 0)
			var s movingwindow.State
			b.ReportAllocs()
			for range b.N {
				s, _ = movingwindow.Step(s, now, o)
				now = now.Add(time.Millisecond)
			}
		})
	}
}

func BenchmarkPolicyStep(b *testing.B) {
	for _, slots := range slotCounts {
		b.Run(fmt.Sprint("slots=", slots), func(b *testing.B) {
			p, err := movingwindow.New(movingwindow.Options{Limit: algo.Per(1000, time.Second), Slots: slots})
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
