package fixedwindow_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/internal/algorithm"
)

// FuzzStep compares functions, methods and the model, for any state, time and options.
func FuzzStep(f *testing.F) {
	f.Fuzz(func(t *testing.T, count, period, align, offset, cost, start, used, sec, nsec int64) {
		o := fixedwindow.Options{
			Limit: algo.Per(count, time.Duration(period)),
			Align: fixedwindow.Align(align), Offset: time.Duration(offset), Cost: cost,
		}
		s := fixedwindow.State{Start: start, Used: used}
		now := time.Unix(sec, nsec)
		kit.EachOp(t, s, now, o, func(op algorithm.Op, next fixedwindow.State, r algo.Result) {
			requireModel(t, s, op, algo.Instant(now), o, r)
			require.Equal(t, r.Remaining, fixedwindow.Peek(next, now, o).Remaining)
		})
		kit.RequireWaits(t, s, algo.Instant(now), o)
	})
}

// requireModel compares a result with that of the model for the nearest state that a step returns.
func requireModel(t *testing.T, s fixedwindow.State, op algorithm.Op, now int64, o fixedwindow.Options, r algo.Result) {
	t.Helper()
	m := newModel(o)
	if s.Used > 0 {
		m.opened = big.NewInt(min(max(s.Start, 0), algo.MaxInstant))
		m.end = m.endOf(m.opened)
		m.paid = big.NewInt(min(s.Used, algo.MaxCount))
	}
	cost := max(o.Cost, 1)
	if op == algorithm.Charge { // the model has no maximum
		used := m.paid.Int64()
		if now >= m.end.Int64() && m.end.IsInt64() {
			used = 0
		}
		if cost > algo.MaxCount-used {
			require.Equal(t, algo.MaxCount-used, r.Paid)
			return
		}
	}
	_, want := m.do(op, now, cost)
	require.Equal(t, want, r)
}

func FuzzDecode(f *testing.F) {
	first := fixedwindow.Options{Limit: algo.Per(7, time.Second), Cost: 2}
	clock := first
	clock.Align = fixedwindow.AlignClock
	f.Fuzz(func(t *testing.T, b []byte) {
		kit.CheckDecode(t, b, func(s fixedwindow.State) int64 { return s.Start }, first, clock)
	})
}
