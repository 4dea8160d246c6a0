package fixedwindow_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/internal/policy"
)

// FuzzStep compares functions, methods and the model, for any state, time and options. The period and the offset are in
// microseconds.
func FuzzStep(f *testing.F) {
	const at, sec = 946684800_000000, 946684800
	f.Add(int64(10), int64(60e6), 0, int64(0), int64(3), int64(at), int64(8), int64(sec+59), int64(999_999_999)) // 1us before the end
	f.Add(int64(10), int64(60e6), 1, int64(-7e6), int64(3), int64(at), int64(2000), int64(sec-1), int64(0))      // a debt, a clock that is behind
	f.Add(int64(10), int64(60e6), 1, int64(90e6), int64(1), int64(0), int64(0), int64(sec), int64(1000))         // a new key
	f.Add(int64(10), int64(60e6), 0, int64(1), int64(1), int64(at), int64(1), int64(sec), int64(0))              // not valid
	f.Add(int64(1), algo.MaxPeriod.Microseconds(), 1, int64(-1), int64(1), int64(algo.MaxInstant), int64(1), int64(0), int64(0))
	f.Add(int64(algo.MaxCount), int64(1), 1, int64(math.MaxInt64/1000), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, count, period int64, align int, offset, cost, start, used, sec, nsec int64) {
		o := fixedwindow.Options{
			Limit: algo.Per(count, time.Duration(period)*time.Microsecond),
			Align: fixedwindow.Align(align), Offset: time.Duration(offset) * time.Microsecond, Cost: cost,
		}
		s := fixedwindow.State{Start: start, Used: used}
		nearest, err := fixedwindow.ParseState(fixedwindow.AppendState(nil, s))
		require.NoError(t, err)
		now := time.Unix(sec, nsec)
		kit.EachOp(t, s, now, o, func(op policy.Op, next fixedwindow.State, r algo.Result) {
			want, expected := model{nearest.Start, nearest.Used}.do(op, algo.Instant(now), max(cost, 1), o)
			require.Equal(t, expected, r, "%v", op)
			if r.Paid != 0 {
				require.Equal(t, fixedwindow.State{Start: want.opened, Used: want.paid}, next)
			}
		})
		kit.RequireWaits(t, s, algo.Instant(now), o)
	})
}

func FuzzDecode(f *testing.F) {
	b := fixedwindow.AppendState(nil, fixedwindow.State{Start: 946684801234567, Used: 90})
	f.Add(b)
	f.Add([]byte{})
	f.Add(b[:len(b)-1])
	f.Add(append([]byte{'f', 2}, b[2:]...)) // a newer version
	f.Add(fixedwindow.AppendState(nil, fixedwindow.State{Start: math.MaxInt64, Used: math.MaxInt64}))
	first := fixedwindow.Options{Limit: algo.Per(7, time.Second), Cost: 2}
	clock := first
	clock.Align = fixedwindow.AlignClock
	f.Fuzz(func(t *testing.T, b []byte) {
		kit.CheckDecode(t, b, func(s fixedwindow.State) int64 { return s.Start }, first, clock)
	})
}
