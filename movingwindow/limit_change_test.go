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
	o.Cost = 1
	at := int64(100 + random.IntN(20))
	counts = map[int64]int64{}
	width := newModel(o).width().Int64()
	slots := max(int64(o.Slots), 1)
	for range 6 {
		at += random.Int64N(o.Limit.Period.Microseconds())
		s, _ = movingwindow.Charge(s, time.UnixMicro(at), o)
		next := map[int64]int64{at: 1}
		for newest, units := range counts {
			if at/width-newest/width > slots {
				continue
			}
			if end := newest - newest%width + width - 1; end < at {
				next[end] += units
			} else {
				next[at] += units
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
			Limit:    algo.Per(random.Int64N(6)+1, time.Duration(random.Int64N(30)+1)*time.Microsecond),
			Slots:    random.IntN(40),
			Trailing: movingwindow.Trailing(random.IntN(2)),
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

func TestMoreSlotsOfTheSameWidthKeepEveryCount(t *testing.T) {
	short := movingwindow.Options{Limit: algo.Per(1000, 2*time.Second), Slots: 2}
	long := movingwindow.Options{Limit: algo.Per(1000, 40*time.Second), Slots: 40}
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	var s movingwindow.State
	for i := range 60 {
		s, _ = movingwindow.Step(s, at.Add(time.Duration(i)*time.Second), long)
	}
	at = at.Add(59 * time.Second)
	require.EqualValues(t, 1000-41, movingwindow.Peek(s, at, long).Remaining)
	require.EqualValues(t, 1000-3, movingwindow.Peek(s, at, short).Remaining)

	s, r := movingwindow.Step(s, at, short)
	require.EqualValues(t, 1000-4, r.Remaining)
	require.Nil(t, s.LongCounts, "three counts need no slice")
	require.EqualValues(t, 1000-4, movingwindow.Peek(s, at, long).Remaining)
}

// If slots become longer, several counts can move to one slot. Their sum must not be too large.
func TestJoinedCountsDoNotOverflow(t *testing.T) {
	var state []byte
	spend := func(period time.Duration, at time.Time) {
		p, err := movingwindow.New(movingwindow.Options{Limit: algo.Per(algo.MaxCount, period)})
		require.NoError(t, err)
		r, err := p.Peek(state, at, 1)
		require.NoError(t, err)
		require.Greater(t, r.Remaining, int64(algo.MaxCount/2))
		state, _, err = p.Step(nil, state, at, r.Remaining)
		require.NoError(t, err)
	}
	spend(time.Second, time.Unix(0, 0))
	spend(time.Second, time.Unix(2, -1000))
	spend(2*time.Second, time.Unix(4, -1000))
	_, err := movingwindow.ParseState(state)
	require.NoError(t, err)
}
