package movingwindow_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/movingwindow"
)

func subject(o movingwindow.Options) algotest.Subject {
	return algotest.Subject{
		Name: fmt.Sprintf("movingwindow slots=%d trailing=%v", max(o.Slots, 1), o.Trailing),
		New:  kit.NewWithLimit(o),
		Oracle: func(l algo.Limit) algotest.Oracle {
			return algotest.MovingWindow(l, max(o.Slots, 1), o.Trailing == movingwindow.Whole)
		},
		Recode:    kit.Recode,
		Windowed:  true,
		Allocates: o.Slots > 16,
	}
}

func TestLaws(t *testing.T) {
	for _, o := range []movingwindow.Options{
		{},
		{Slots: 3},
		{Trailing: movingwindow.Whole},
		{Slots: 4, Trailing: movingwindow.Whole},
		{Slots: 16}, // the most that need no allocation
		{Slots: 20, Trailing: movingwindow.Whole},
	} {
		s := subject(o)
		t.Run(s.Name, func(t *testing.T) { algotest.Run(t, s) })
	}
}

// The law BoundHolds tries only short periods. This test tries slots of up to 300us: it takes
// all units or a part of them, often at the first or last instant of a slot.
func TestBoundHoldsForWideSlots(t *testing.T) {
	random := sample.New(2, 7)
	for range policytest.Rounds(10_000) {
		o := movingwindow.Options{
			Limit:    algo.Per(random.Int64N(40)+1, time.Duration(random.Int64N(300)+1)*time.Microsecond),
			Slots:    random.IntN(24) + 1,
			Trailing: movingwindow.Trailing(random.IntN(2)),
		}
		var s movingwindow.State
		var log algotest.Log
		width := newModel(o).width().Int64()
		now := 1000 * width
		for range 40 {
			now += []int64{0, 1, random.Int64N(width) + 1, width - 1 - now%width, width - now%width, random.Int64N(3*o.Limit.Period.Microseconds()) + 1}[random.IntN(6)]
			left := peek(s, now, o).Remaining
			if random.IntN(3) == 0 {
				left = random.Int64N(left + 1)
			}
			if left < 1 {
				continue
			}
			next, r := kit.CallAt(s, policy.Step, now, o, left)
			require.True(t, r.Allowed)
			s = next
			log.Add(time.UnixMicro(now), left)
		}
		for i, last := range log.Entries {
			for _, first := range log.Entries[:i+1] {
				span := last.At.Sub(first.At)
				require.LessOrEqual(t, log.Admitted(first.At, span+1), kit.Bound(o, shortest(span.Microseconds())), "%+v, from %d to %d", o, first.At.UnixMicro(), last.At.UnixMicro())
			}
		}
	}
}

// shortest returns the shortest half-open interval that can have two instants which differ by that many microseconds.
func shortest(us int64) time.Duration {
	return max(1, time.Duration(us-1)*time.Microsecond+2)
}

// A caller that takes all units at the last instant of a slot, and every unit that comes back,
// reaches the bound.
func TestBoundIsReached(t *testing.T) {
	for _, trailing := range []movingwindow.Trailing{movingwindow.Weighted, movingwindow.Whole} {
		for _, slots := range []int64{1, 2, 5, 12} {
			const width = 1000
			o := movingwindow.Options{Limit: algo.Per(50, time.Duration(slots*width)*time.Microsecond), Slots: int(slots), Trailing: trailing}
			first := int64(100*width - 1)
			s, _ := kit.CallAt(movingwindow.State{}, policy.Step, first, o, 50)
			for now := first + 1; now <= first+slots*width+1; now++ {
				want := kit.Bound(o, shortest(now-first)) - 50
				require.Equal(t, want, peek(s, now, o).Remaining, "%+v, %d after the first burst", o, now-first)
			}
		}
	}
}
