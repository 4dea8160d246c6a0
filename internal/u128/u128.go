// Package u128 provides the unsigned 128-bit arithmetic that the algorithms need. No operation
// allocates or wraps around.
package u128

import (
	"math"
	"math/bits"
)

// Uint is Hi*2^64 + Lo.
type Uint struct{ Hi, Lo uint64 }

// From returns x, which must not be negative.
func From(x int64) Uint { return Uint{Lo: uint64(x)} }

// Mul returns a*b. Neither a nor b may be negative.
func Mul(a, b int64) Uint {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return Uint{hi, lo}
}

// Add returns x+y. The sum must be below 2^128. The sum of two results of [Mul] always is.
func (x Uint) Add(y Uint) Uint {
	lo, carry := bits.Add64(x.Lo, y.Lo, 0)
	hi, _ := bits.Add64(x.Hi, y.Hi, carry)
	return Uint{hi, lo}
}

// Sub returns x-y, or 0 if y is greater than x.
func (x Uint) Sub(y Uint) Uint {
	lo, borrow := bits.Sub64(x.Lo, y.Lo, 0)
	hi, borrow := bits.Sub64(x.Hi, y.Hi, borrow)
	if borrow != 0 {
		return Uint{}
	}
	return Uint{hi, lo}
}

// Less reports whether x < y.
func (x Uint) Less(y Uint) bool {
	return x.Hi < y.Hi || x.Hi == y.Hi && x.Lo < y.Lo
}

// IsZero reports whether x is 0.
func (x Uint) IsZero() bool { return x.Hi|x.Lo == 0 }

// Int64 returns x, or math.MaxInt64 if x is greater.
func (x Uint) Int64() int64 {
	if x.Hi|x.Lo>>63 != 0 {
		return math.MaxInt64
	}
	return int64(x.Lo)
}

// DivMod returns floor(x/d) and the remainder. d must be at least 1. If the quotient is
// math.MaxInt64 or more, DivMod returns math.MaxInt64 and the remainder 0. So if the remainder is
// not 0, q+1 does not overflow.
func (x Uint) DivMod(d int64) (q, r int64) {
	if x.Hi|x.Lo>>63 == 0 {
		return int64(x.Lo / uint64(d)), int64(x.Lo % uint64(d))
	}
	return x.divMod(uint64(d))
}

func (x Uint) divMod(d uint64) (q, r int64) {
	if x.Hi < d {
		if quo, rem := bits.Div64(x.Hi, x.Lo, d); quo < math.MaxInt64 {
			return int64(quo), int64(rem)
		}
	}
	return math.MaxInt64, 0
}

// CeilDiv returns ceil(x/d), or math.MaxInt64 if that is greater. d must be at least 1.
func (x Uint) CeilDiv(d int64) int64 {
	q, r := x.DivMod(d)
	if r > 0 {
		q++
	}
	return q
}

// GCD returns the greatest common divisor of two numbers, which must be at least 1.
func GCD(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
