package movingwindow_test

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/movingwindow"
)

// FuzzStep compares functions, methods and the model, for any state, time and options. The period is in microseconds. A width
// of 0 means that of the options. Each count is 8 bytes, little endian.
func FuzzStep(f *testing.F) {
	const at, sec = 946684800_000000, 946684800
	counts := func(counts ...int64) (b []byte) {
		for _, c := range counts {
			b = binary.LittleEndian.AppendUint64(b, uint64(c))
		}
		return b
	}
	long := make([]int64, 20)
	long[19] = 5
	f.Add(int64(10), int64(60e6), 6, 0, int64(3), int64(at), int64(0), counts(2, 0, 1, 0, 0, 0, 4), int64(sec+3), int64(0)) // a trailing slot
	f.Add(int64(10), int64(60e6), 1, 1, int64(3), int64(at), int64(0), counts(2000, 7), int64(sec-1), int64(0))             // a debt, a clock that is behind
	f.Add(int64(10), int64(60e6), 30, 0, int64(3), int64(at), int64(0), counts(long...), int64(sec+21), int64(999_999_999)) // many slots
	f.Add(int64(10), int64(60e6), 2, 0, int64(1), int64(at), int64(7e6), counts(1, 2, 3, 4, 5), int64(sec), int64(0))       // other slots
	f.Add(int64(10), int64(0), 2, 0, int64(1), int64(at), int64(7e6), counts(1), int64(sec), int64(0))                      // not valid
	f.Add(int64(algo.MaxCount), algo.MaxPeriod.Microseconds(), 1, 0, int64(math.MaxInt64), int64(algo.MaxInstant), int64(0), counts(1, 9), int64(0), int64(0))
	f.Add(int64(algo.MaxCount), int64(1), 1024, 0, int64(9), int64(math.MaxInt64), int64(math.MaxInt64), counts(math.MaxInt64, math.MinInt64, math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, count, period int64, slots, trailing int, cost, at, width int64, counts []byte, sec, nsec int64) {
		o := movingwindow.Options{
			Limit: algo.Per(count, time.Duration(period)*time.Microsecond),
			Slots: slots, Trailing: movingwindow.Trailing(trailing), Cost: cost,
		}
		if width == 0 && o.Validate() == nil {
			width = newModel(o).width().Int64()
		}
		s := stateOf(at, width, counts)
		many := slices.Clone(s.LongCounts)
		now := time.Unix(sec, nsec)
		for _, op := range policy.Ops {
			if o.Validate() != nil {
				kit.RequireDenies(t, s, op, now, o)
				continue
			}
			next, r := kit.Call(s, op, now, o)
			require.Equal(t, many, s.LongCounts, "the argument was modified")
			policytest.RequireSums(t, r)
			requireModel(t, s, op, algo.Instant(now), o, r)
			requireMethod(t, s, op, now, o, next, r)
			require.Equal(t, r.Remaining, movingwindow.Peek(next, now, o).Remaining)
		}
		kit.RequireWaits(t, s, algo.Instant(now), o)
	})
}

func stateOf(at, width int64, counts []byte) movingwindow.State {
	s := movingwindow.State{At: at, Width: width}
	to := s.Counts[:]
	if len(counts)/8 > len(s.Counts) {
		s.LongCounts = make([]int64, len(counts)/8)
		to = s.LongCounts
	}
	for i := range len(counts) / 8 {
		to[i] = int64(binary.LittleEndian.Uint64(counts[8*i:]))
	}
	return s
}

// requireModel compares a result with that of the model, if a step with these options can return
// the state.
func requireModel(t *testing.T, s movingwindow.State, op policy.Op, now int64, o movingwindow.Options, r algo.Result) {
	t.Helper()
	m := newModel(o)
	if s.Width != m.width().Int64() || s.At < 0 || s.At > algo.MaxInstant {
		return
	}
	counts := s.Counts[:]
	if s.LongCounts != nil {
		counts = s.LongCounts
	}
	room := new(big.Int).Add(m.most(), big.NewInt(o.Limit.Count))
	m.latest = big.NewInt(s.At)
	for i, units := range counts {
		begin := new(big.Int).Sub(m.slot(m.latest), big.NewInt(int64(i)))
		begin.Mul(begin, m.width())
		if units < 0 || room.Sub(room, big.NewInt(units)).Sign() < 0 {
			return
		}
		if units > 0 && int64(i) <= m.slots().Int64() {
			m.log = slices.Insert(m.log, 0, payment{begin, big.NewInt(units)})
		}
	}
	_, want := m.do(op, now, max(o.Cost, 1))
	require.Equal(t, want, r)
}

// requireMethod compares the function with the method on the encoded state.
func requireMethod(t *testing.T, s movingwindow.State, op policy.Op, now time.Time, o movingwindow.Options, next movingwindow.State, r algo.Result) {
	t.Helper()
	p, err := movingwindow.New(kit.WithCost(o, 0))
	require.NoError(t, err)
	bytes, same, err := op.Apply(p, []byte{}, movingwindow.AppendState(nil, s), now, r.Cost)
	require.NoError(t, err)
	require.Equal(t, r, same)
	require.Equal(t, movingwindow.AppendState([]byte{}, next), bytes)
	again, err := movingwindow.ParseState(bytes)
	require.NoError(t, err)
	if r.Paid != 0 {
		require.Equal(t, next, again)
	}
}

func FuzzDecode(f *testing.F) {
	b := movingwindow.AppendState(nil, movingwindow.State{At: 946684801234567, Width: 1e6, Counts: [17]int64{300, 0, 43}})
	f.Add(b)
	f.Add([]byte{})
	f.Add(b[:len(b)-1])
	f.Add(append([]byte{'m', 2}, b[2:]...)) // a newer version
	f.Add(movingwindow.AppendState(nil, movingwindow.State{At: math.MaxInt64, Width: math.MaxInt64, LongCounts: []int64{1024: math.MaxInt64}}))
	var options []movingwindow.Options
	for _, slots := range []int{1, 12, 30} {
		options = append(options, movingwindow.Options{Limit: algo.Per(7, time.Second), Slots: slots, Cost: 2})
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := kit.CheckDecode(t, b, func(s movingwindow.State) int64 { return s.At }, options...)
		require.LessOrEqual(t, cap(s.LongCounts), len(b), "more counts than bytes are allocated")
	})
}
