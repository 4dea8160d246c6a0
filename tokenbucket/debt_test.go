package tokenbucket_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/tokenbucket"
)

// A debt is at most 2^62 tokens, and at most the tokens that are refilled by 2^63-1 ns.
func TestDebtIsLimited(t *testing.T) {
	const end = algo.MaxInstant // 2^62 ns before 2^63-1
	for _, c := range []struct {
		o    tokenbucket.Options
		at   int64
		most int64
	}{
		{tokenbucket.Options{Limit: algo.Per(5, 7)}, 1000, algo.MaxCount},
		{tokenbucket.Options{Limit: algo.Per(1<<62, 1)}, end, algo.MaxCount},
		{tokenbucket.Options{Limit: algo.Per(1, 1)}, end, algo.MaxCount},
		{tokenbucket.Options{Limit: algo.Per(1, 2)}, end, 1 << 61},
		{tokenbucket.Options{Limit: algo.Per(1, 1<<40), Burst: 4}, end, 1 << 22},
		{tokenbucket.Options{Limit: algo.Per(10, 1<<40), Burst: 4}, end, 10 << 22},
		{tokenbucket.Options{Limit: algo.Per(10, 1<<40), Burst: 4, Refill: tokenbucket.Interval}, end, 10 << 22},
		{tokenbucket.Options{Limit: algo.Per(1, 1<<40), Burst: 4}, 0, 1<<23 - 1},
		{tokenbucket.Options{Limit: algo.Per(1, 1<<62)}, end, 1},
	} {
		s, r := kit.CallAt(tokenbucket.State{}, algorithm.Charge, c.at, c.o, 1)
		require.EqualValues(t, 1, r.Paid)
		for _, at := range []int64{c.at, c.at / 2, 0} { // a clock that is behind cannot charge more
			full, r := kit.CallAt(s, algorithm.Charge, at, c.o, math.MaxInt64)
			require.Equal(t, c.most-1, r.Paid, "%+v at %d", c.o, at)
			require.True(t, r.Allowed)
			require.LessOrEqual(t, int64(r.ResetAfter), math.MaxInt64-at)
			more, r := kit.CallAt(full, algorithm.Charge, at, c.o, 1)
			require.Zero(t, r.Paid)
			require.Equal(t, full, more)
		}
	}
}

// The accrued part of the next refill counts: after 5 of the 8ns of a token, a debt of 2^59+1 ends
// exactly at 2^63-1 ns.
func TestAccruedPartAllowsMoreDebt(t *testing.T) {
	o := tokenbucket.Options{Limit: algo.Per(1, 8), Burst: 4}
	const at = algo.MaxInstant - 3 // 2^62+3 ns before 2^63-1
	s, _ := kit.CallAt(tokenbucket.State{}, algorithm.Charge, at-5, o, 2)
	full, r := kit.CallAt(s, algorithm.Charge, at, o, math.MaxInt64)
	require.EqualValues(t, 1<<59+1, full.Used)
	require.EqualValues(t, math.MaxInt64-at, r.ResetAfter)
}

// A lowered limit can leave a debt that is not refilled by 2^63-1 ns.
func TestDebtBeyondMaxInt64(t *testing.T) {
	fast := tokenbucket.Options{Limit: algo.Per(1<<62, 1)}
	s, _ := kit.CallAt(tokenbucket.State{}, algorithm.Step, 1000, fast, 1<<62)
	for _, slow := range []tokenbucket.Options{
		{Limit: algo.Per(3, 1<<61)},
		{Limit: algo.Per(3, 1<<61), Refill: tokenbucket.Interval},
	} {
		for _, at := range []int64{0, 1000, algo.MaxInstant} {
			next, r := kit.CallAt(s, algorithm.Step, at, slow, 1)
			require.Equal(t, s, next)
			require.False(t, r.Allowed)
			require.Equal(t, algo.Never, r.RetryAfter)
			require.Equal(t, algo.Never, r.ResetAfter)
			require.Less(t, r.NextRefill, algo.Never)
			_, r = kit.CallAt(s, algorithm.Charge, at, slow, 1)
			require.Zero(t, r.Paid)
		}
	}
}
