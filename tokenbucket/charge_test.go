package tokenbucket_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/tokenbucket"
)

// A debt ends where a state can hold no more: at 2^62 tokens used, and at what
// has come back by 2^63-1 ns.
func TestADebtHasAnEnd(t *testing.T) {
	const end = algo.MaxInstant // from there to 2^63-1 are 2^62 ns
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
		s, r := call(tokenbucket.State{}, charge, c.at, c.o, 1)
		require.EqualValues(t, 1, r.Paid)
		for _, at := range []int64{c.at, c.at / 2, 0} { // a clock behind makes no more room
			full, r := call(s, charge, at, c.o, math.MaxInt64)
			require.Equal(t, c.most-1, r.Paid, "%+v at %d", c.o, at)
			require.True(t, r.Allowed)
			require.LessOrEqual(t, int64(r.ResetAfter), math.MaxInt64-at)
			more, r := call(full, charge, at, c.o, 1)
			require.Zero(t, r.Paid)
			require.Equal(t, full, more)
		}
	}
}

// What has accrued of the next refill makes room too: with 5 of the 8ns of a token
// behind it, a debt of 2^59+1 ends by 2^63-1 ns to the nanosecond.
func TestADebtEndsWithTheLastWholeToken(t *testing.T) {
	o := tokenbucket.Options{Limit: algo.Per(1, 8), Burst: 4}
	const at = algo.MaxInstant - 3 // from there to 2^63-1 are 2^62+3 ns
	s, _ := call(tokenbucket.State{}, charge, at-5, o, 2)
	full, r := call(s, charge, at, o, math.MaxInt64)
	require.EqualValues(t, 1<<59+1, full.Used)
	require.EqualValues(t, math.MaxInt64-at, r.ResetAfter)
}

// A lowered limit can leave more debt than can ever come back by 2^63-1 ns.
func TestADebtBeyondTheEndOfTime(t *testing.T) {
	fast := tokenbucket.Options{Limit: algo.Per(1<<62, 1)}
	s, _ := call(tokenbucket.State{}, step, 1000, fast, 1<<62)
	for _, slow := range []tokenbucket.Options{
		{Limit: algo.Per(3, 1<<61)},
		{Limit: algo.Per(3, 1<<61), Refill: tokenbucket.Interval},
	} {
		for _, at := range []int64{0, 1000, algo.MaxInstant} {
			next, r := call(s, step, at, slow, 1)
			require.Equal(t, s, next)
			require.False(t, r.Allowed)
			require.Equal(t, algo.Never, r.RetryAfter)
			require.Equal(t, algo.Never, r.ResetAfter)
			require.Less(t, r.NextRefill, algo.Never)
			_, r = call(s, charge, at, slow, 1)
			require.Zero(t, r.Paid)
		}
	}
}
