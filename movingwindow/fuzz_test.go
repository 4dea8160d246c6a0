package movingwindow_test

import (
	"encoding/binary"
	"math"
	"math/big"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/algorithmtest"
	"github.com/sluice-go/sluice/movingwindow"
)

// FuzzStep compares functions, methods and the model, for any state, time and options. A width of
// 0 means that of the options. Each count is 8 bytes, little endian.
func FuzzStep(f *testing.F) {
	f.Fuzz(func(t *testing.T, count, period int64, slots, trailing int, cost, at, width int64, counts []byte, sec, nsec int64) {
		o := movingwindow.Options{
			Limit: algo.Per(count, time.Duration(period)),
			Slots: slots, Trailing: movingwindow.Trailing(trailing), Cost: cost,
		}
		if width == 0 && o.Validate() == nil {
			width = min(newModel(o).width().Int64(), algo.MaxInstant+1)
		}
		s := stateOf(at, width, counts)
		many := slices.Clone(s.LongCounts)
		now := time.Unix(sec, nsec)
		for _, op := range algorithm.Ops {
			if o.Validate() != nil {
				kit.RequireDenies(t, s, op, now, o)
				continue
			}
			next, r := kit.Call(s, op, now, o)
			require.Equal(t, many, s.LongCounts, "the argument was modified")
			algorithmtest.RequireSums(t, r)
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
func requireModel(t *testing.T, s movingwindow.State, op algorithm.Op, now int64, o movingwindow.Options, r algo.Result) {
	t.Helper()
	m := newModel(o)
	if s.Width != m.width().Int64() || s.At < 0 || s.At > algo.MaxInstant {
		return
	}
	counts := s.Counts[:]
	if s.LongCounts != nil {
		counts = s.LongCounts
	}
	total := new(big.Int)
	m.latest = big.NewInt(s.At)
	for i, units := range counts {
		begin := new(big.Int).Sub(m.slot(m.latest), big.NewInt(int64(i)))
		begin.Mul(begin, m.width())
		if units < 0 || units > algo.MaxCount || total.Add(total, big.NewInt(units)).Cmp(big.NewInt(math.MaxInt64)) > 0 {
			return
		}
		if units > 0 && int64(i) <= m.slots().Int64() {
			m.log = slices.Insert(m.log, 0, payment{begin, big.NewInt(units)})
		}
	}
	cost := max(o.Cost, 1)
	if op == algorithm.Charge {
		room := new(big.Int).Sub(big.NewInt(algo.MaxCount), m.total(now))
		if room.Cmp(big.NewInt(cost)) < 0 { // the model has no maximum
			require.Equal(t, max(0, room.Int64()), r.Paid)
			return
		}
	}
	_, want := m.do(op, now, cost)
	require.Equal(t, want, r)
}

// requireMethod compares the function with the method on the encoded state.
func requireMethod(t *testing.T, s movingwindow.State, op algorithm.Op, now time.Time, o movingwindow.Options, next movingwindow.State, r algo.Result) {
	t.Helper()
	p, err := movingwindow.New(o)
	require.NoError(t, err)
	encoded := movingwindow.AppendState(nil, s)
	bytes, same, err := op.Apply(p, []byte{}, encoded, now, 0)
	require.NoError(t, err)
	require.Equal(t, r, same)
	again, err := movingwindow.ParseState(bytes)
	require.NoError(t, err)
	if nearest, err := movingwindow.ParseState(encoded); err != nil || !reflect.DeepEqual(nearest, s) {
		next, _ = kit.Call(nearest, op, now, o) // counts that are too old may differ
	}
	require.Equal(t, movingwindow.AppendState([]byte{}, next), bytes)
	if r.Paid != 0 && encodes(next) {
		require.Equal(t, next, again)
	}
}

// encodes reports whether the sum of all counts is small enough for the encoding.
func encodes(s movingwindow.State) bool {
	sum := new(big.Int)
	for _, c := range append(s.Counts[:], s.LongCounts...) {
		sum.Add(sum, big.NewInt(c))
	}
	return sum.IsInt64()
}

func FuzzDecode(f *testing.F) {
	var options []movingwindow.Options
	for _, slots := range []int{1, 12, 30} {
		options = append(options, movingwindow.Options{Limit: algo.Per(7, time.Second), Slots: slots, Cost: 2})
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := kit.CheckDecode(t, b, func(s movingwindow.State) int64 { return s.At }, options...)
		require.LessOrEqual(t, cap(s.LongCounts), len(b), "more counts than bytes are allocated")
	})
}
