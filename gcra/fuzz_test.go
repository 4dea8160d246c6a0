package gcra_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/policy"
)

// FuzzStep compares functions, methods and the model, for any state, time and options.
func FuzzStep(f *testing.F) {
	f.Fuzz(func(t *testing.T, count, period, burst, cost, at, level, unit, sec, nsec int64) {
		o := gcra.Options{Limit: algo.Per(count, time.Duration(period)*time.Microsecond), Burst: burst, Cost: cost}
		s := gcra.State{At: at, Level: level, Unit: unit}
		nearest, err := gcra.ParseState(gcra.AppendState(nil, s))
		require.NoError(t, err)
		now := time.Unix(sec, nsec)
		kit.EachOp(t, s, now, o, func(op policy.Op, next gcra.State, r algo.Result) {
			want, expected := modelOf(nearest).do(op, algo.Instant(now), max(cost, 1), o)
			require.Equal(t, expected, r, "operation %d", op)
			if r.Paid != 0 {
				want.is(t, next)
			}
		})
	})
}

func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		kit.CheckDecode(t, b, func(s gcra.State) int64 { return s.At }, gcra.Options{Limit: algo.Per(7, time.Second), Burst: 50, Cost: 2})
	})
}
