package movingwindow_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/movingwindow"
)

// used returns a state after several payments. counts has the units that the state still knows, by
// the newest instant at which they may have been paid.
func used(random sample.Source, o movingwindow.Options) (s movingwindow.State, counts map[int64]int64) {
	at := int64(100 + random.IntN(20))
	counts = map[int64]int64{}
	width, slots := newModel(o).width().Int64(), max(int64(o.Slots), 1)
	for range 6 {
		at += random.Int64N(o.Limit.Period.Microseconds())
		s, _ = suite.CallAt(s, policy.Charge, at, o, 1)
		next := map[int64]int64{at: 1}
		for newest, units := range counts {
			if at/width-newest/width <= slots {
				next[min(newest-newest%width+width-1, at)] += units
			}
		}
		counts = next
	}
	return s, counts
}

// After a change of slots or period, every unit counts as if it had been paid at the newest
// instant of its old slot.
func TestChangedSlotsKeepUnitsUsed(t *testing.T) {
	random := sample.New(2, 5)
	anySmall := func() movingwindow.Options {
		return movingwindow.Options{
			Limit: algo.Per(random.Int64N(6)+1, time.Duration(random.Int64N(30)+1)*time.Microsecond),
			Slots: random.IntN(40), Trailing: movingwindow.Trailing(random.IntN(2)),
		}
	}
	for range policytest.Rounds(4000) {
		o, other := anySmall(), anySmall()
		s, counts := used(random, o)
		m := newModel(other)
		m.latest = big.NewInt(s.At)
		for at := int64(0); at <= s.At; at++ {
			if units := counts[at]; units > 0 {
				m.log = append(m.log, payment{big.NewInt(at), big.NewInt(units)})
			}
		}
		for _, after := range []int64{-5, 0, 1, random.Int64N(60)} {
			_, want := m.do(policy.Peek, s.At+after, 1)
			require.Equal(t, want, movingwindow.Peek(s, time.UnixMicro(s.At+after), other), "%+v, then %+v: %v", o, other, counts)
		}
	}
}

// If slots become longer, several counts can move to one slot. Their sum must not be too large.
func TestJoinedCountsDoNotOverflow(t *testing.T) {
	var s movingwindow.State
	for _, spend := range []struct{ period, at time.Duration }{{time.Second, 0}, {time.Second, 2*time.Second - 1000}, {2 * time.Second, 4*time.Second - 1000}} {
		o, at := movingwindow.Options{Limit: algo.Per(algo.MaxCount, spend.period)}, time.Unix(0, int64(spend.at))
		o.Cost = movingwindow.Peek(s, at, o).Remaining
		require.Greater(t, o.Cost, int64(algo.MaxCount/2))
		s, _ = suite.Do(t, s, policy.Step, at, o)
	}
	_, err := movingwindow.ParseState(movingwindow.AppendState(nil, s))
	require.NoError(t, err)
}
