package tokenbucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/tokenbucket"
)

// FuzzStep compares functions, methods and the model, for any state, time and options. The period is in microseconds.
func FuzzStep(f *testing.F) {
	const at, sec = 946684800_000000, 946684800
	f.Add(int64(3), int64(1e6), int64(0), 0, int64(1), int64(at), int64(2300792), int64(1e6), int64(sec+1), int64(5))                     // a part of a token
	f.Add(int64(60), int64(60e6), int64(90), 1, int64(30), int64(at), int64(90), int64(1), int64(sec+59), int64(999999999))               // 1us before a refill
	f.Add(int64(10), int64(1e6), int64(3), 1, int64(1), int64(at), int64(2000), int64(1), int64(sec-1), int64(0))                         // a debt, a clock that is behind
	f.Add(int64(7), int64(1e6), int64(5), 0, int64(2), int64(at), int64(11), int64(3), int64(sec), int64(0))                              // another weight
	f.Add(int64(0), int64(1e6), int64(0), 0, int64(1), int64(at), int64(1), int64(1), int64(sec), int64(0))                               // not valid
	f.Add(int64(1), algo.MaxPeriod.Microseconds(), int64(1), 1, int64(9), int64(algo.MaxInstant), int64(1), int64(1), int64(0), int64(0)) // the longest period
	f.Add(int64(algo.MaxCount), int64(1), int64(algo.MaxCount), 0, int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, count, period, burst int64, refill int, cost, at, level, unit, sec, nsec int64) {
		o := tokenbucket.Options{Limit: algo.Per(count, time.Duration(period)*time.Microsecond), Burst: burst, Refill: tokenbucket.Refill(refill), Cost: cost}
		s := tokenbucket.State{At: at, Level: level, Unit: unit}
		nearest, err := tokenbucket.ParseState(tokenbucket.AppendState(nil, s))
		require.NoError(t, err)
		now := time.Unix(sec, nsec)
		kit.EachOp(t, s, now, o, func(op policy.Op, next tokenbucket.State, r algo.Result) {
			want, expected := modelOf(nearest).do(op, algo.Instant(now), max(cost, 1), o)
			require.Equal(t, expected, r, "%v", op)
			if r.Paid != 0 {
				want.is(t, next)
			}
		})
		kit.RequireWaits(t, s, algo.Instant(now), o)
	})
}

func FuzzDecode(f *testing.F) {
	s := tokenbucket.State{At: 946684801234567, Level: 2300792, Unit: 1000000}
	b := tokenbucket.AppendState(nil, s)
	f.Add(b)
	f.Add([]byte{})
	f.Add(b[:len(b)-1])
	f.Add(append([]byte{'t', 2}, b[2:]...)) // a newer version
	f.Add(tokenbucket.AppendState(nil, tokenbucket.State{At: math.MaxInt64, Level: math.MaxInt64, Unit: math.MaxInt64}))
	continuous := tokenbucket.Options{Limit: algo.Per(7, time.Second), Burst: 50, Cost: 2}
	interval := continuous
	interval.Refill = tokenbucket.Interval
	f.Fuzz(func(t *testing.T, b []byte) {
		kit.CheckDecode(t, b, func(s tokenbucket.State) int64 { return s.At }, continuous, interval)
	})
}
