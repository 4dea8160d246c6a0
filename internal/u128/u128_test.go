// These tests promise that each operation agrees with math/big, and saturates instead of wrapping
// around.
package u128_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/u128"
)

const maxWord = math.MaxUint64

func TestArithmeticAtItsLimits(t *testing.T) {
	max := u128.Uint{Hi: maxWord, Lo: maxWord}
	for _, c := range []struct{ got, want u128.Uint }{
		{u128.From(0), u128.Uint{}},
		{u128.From(math.MaxInt64), u128.Uint{Lo: math.MaxInt64}},
		{u128.Mul(0, math.MaxInt64), u128.Uint{}},
		{u128.Mul(math.MaxInt64, math.MaxInt64), u128.Uint{Hi: 1<<62 - 1, Lo: 1}},
		{u128.Uint{Lo: maxWord}.Add(u128.From(1)), u128.Uint{Hi: 1}},
		{u128.Uint{Hi: 1}.Sub(u128.From(1)), u128.Uint{Lo: maxWord}},
		{u128.From(1).Sub(u128.From(2)), u128.Uint{}},
		{u128.From(1).Sub(u128.Uint{Hi: 1}), u128.Uint{}},
		{max.Sub(max), u128.Uint{}},
	} {
		require.Equal(t, c.want, c.got)
	}
}

func TestDivModAtItsLimits(t *testing.T) {
	for _, c := range []struct {
		x          u128.Uint
		d          int64
		q, r, ceil int64
	}{
		{u128.From(0), 1, 0, 0, 0},
		{u128.From(7), 3, 2, 1, 3},
		{u128.From(6), 3, 2, 0, 2},
		{u128.From(math.MaxInt64), 1, math.MaxInt64, 0, math.MaxInt64},
		{u128.Uint{Lo: 1 << 63}, 1, math.MaxInt64, 0, math.MaxInt64},
		{u128.Uint{Lo: 1 << 63}, 2, 1 << 62, 0, 1 << 62},
		{u128.Uint{Lo: maxWord}, 2, math.MaxInt64, 0, math.MaxInt64},         // the remainder of 1 is dropped
		{u128.Uint{Lo: maxWord - 2}, 2, math.MaxInt64 - 1, 1, math.MaxInt64}, // this remainder is not
		{u128.Uint{Hi: 2, Lo: 0}, 2, math.MaxInt64, 0, math.MaxInt64},        // Hi is not below d
		{u128.Uint{Hi: maxWord, Lo: maxWord}, 1, math.MaxInt64, 0, math.MaxInt64},
		{u128.Uint{Hi: 1, Lo: 5}, 10, 1844674407370955162, 1, 1844674407370955163}, // 2^64+5
		{u128.Mul(math.MaxInt64, 12345), math.MaxInt64, 12345, 0, 12345},
	} {
		q, r := c.x.DivMod(c.d)
		require.Equal(t, []int64{c.q, c.r, c.ceil}, []int64{q, r, c.x.CeilDiv(c.d)}, "%+v / %d", c.x, c.d)
	}
}

// FuzzUint compares every operation with math/big.
func FuzzUint(f *testing.F) {
	f.Fuzz(func(t *testing.T, xhi, xlo, yhi, ylo uint64, a, b int64) {
		x, y := u128.Uint{Hi: xhi, Lo: xlo}, u128.Uint{Hi: yhi, Lo: ylo}
		a, b = a&math.MaxInt64, b&math.MaxInt64
		same(t, new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), u128.Mul(a, b))
		same(t, big.NewInt(a), u128.From(a))
		if sum := new(big.Int).Add(number(x), number(y)); sum.BitLen() <= 128 {
			same(t, sum, x.Add(y))
		}
		difference := new(big.Int).Sub(number(x), number(y))
		require.Equal(t, difference.Sign() < 0, x.Less(y))
		if difference.Sign() < 0 {
			difference.SetInt64(0)
		}
		same(t, difference, x.Sub(y))
		require.Equal(t, number(x).Sign() == 0, x.IsZero())
		whole, _ := x.DivMod(1)
		require.Equal(t, whole, x.Int64())
		divides(t, x, max(a, 1))
		divides(t, u128.Mul(a, b).Add(u128.From(a)), max(b, 1))
	})
}

func divides(t *testing.T, x u128.Uint, d int64) {
	t.Helper()
	q, r := new(big.Int).QuoRem(number(x), big.NewInt(d), new(big.Int))
	gotQ, gotR := x.DivMod(d)
	up := x.CeilDiv(d)
	if limit := big.NewInt(math.MaxInt64); q.Cmp(limit) >= 0 {
		require.Equal(t, []int64{math.MaxInt64, 0, math.MaxInt64}, []int64{gotQ, gotR, up})
		return
	}
	require.Equal(t, []int64{q.Int64(), r.Int64()}, []int64{gotQ, gotR})
	if r.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	require.Equal(t, q.Int64(), up)
}

func number(x u128.Uint) *big.Int {
	n := new(big.Int).SetUint64(x.Hi)
	return n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(x.Lo))
}

func same(t *testing.T, want *big.Int, got u128.Uint) {
	t.Helper()
	require.Zero(t, want.Cmp(number(got)), "want %v, got %v", want, number(got))
}
