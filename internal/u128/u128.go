// Package u128 is the unsigned 128-bit arithmetic that the algorithms decide
// with: just the operations they need, none of which allocates or wraps.
package u128

import (
	"math"
	"math/bits"
)

// Uint is Hi*2^64 + Lo.
type Uint struct{ Hi, Lo uint64 }

// From is x, which must not be negative.
func From(x int64) Uint { return Uint{Lo: uint64(x)} }

// Mul is a*b, neither of which may be negative.
func Mul(a, b int64) Uint {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return Uint{hi, lo}
}

// Add is x+y. The caller makes sure that the sum is below 2^128; two products of
// int64 always are.
func (x Uint) Add(y Uint) Uint {
	lo, carry := bits.Add64(x.Lo, y.Lo, 0)
	hi, _ := bits.Add64(x.Hi, y.Hi, carry)
	return Uint{hi, lo}
}

// Sub is x-y, or 0 where y is the greater.
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

// Int64 is x, or math.MaxInt64 where it is more.
func (x Uint) Int64() int64 {
	if x.Hi|x.Lo>>63 != 0 {
		return math.MaxInt64
	}
	return int64(x.Lo)
}

// DivMod is floor(x/d) and the remainder, for d of at least 1. A quotient of
// math.MaxInt64 or more is answered with math.MaxInt64 and remainder 0, so that
// one may always be added where there is a remainder.
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

// CeilDiv is ceil(x/d), for d of at least 1, or math.MaxInt64 where it is more.
func (x Uint) CeilDiv(d int64) int64 {
	q, r := x.DivMod(d)
	if r > 0 {
		q++
	}
	return q
}
