// Package percent has exact percentages.
package percent

import (
	"cmp"
	"math/big"
	"regexp"
	"strings"
)

// Share is an exact percentage from 0% to 100%. The zero Share is 0%.
type Share struct {
	text     string
	fraction *big.Rat // from 0 to 1; nil: 0
}

// percentage bounds the length, because a number of any length would take any time.
var percentage = regexp.MustCompile(`^\d{1,3}(\.\d{1,18})?%$`)

// Parse parses a percentage from 0% to 100%.
func Parse(s string) (share Share, ok bool) {
	if !percentage.MatchString(s) {
		return Share{}, false
	}
	one := big.NewRat(100, 1) // 100%
	fraction, ok := new(big.Rat).SetString(strings.TrimSuffix(s, "%"))
	if !ok || fraction.Cmp(one) > 0 {
		return Share{}, false
	}
	return Share{s, fraction.Quo(fraction, one)}, true
}

// String returns the percentage as it was parsed.
func (s Share) String() string { return s.text }

// value returns the share as a number from 0 to 1.
func (s Share) value() *big.Rat { return cmp.Or(s.fraction, new(big.Rat)) }

// Percent returns the percentage, rounded.
func (s Share) Percent() float64 {
	value, _ := s.value().Float64()
	return 100 * value
}

// Part returns the share of total. It rounds down.
func (s Share) Part(total int64) int64 { return floorOf(s.value(), total) }

// Rest returns the most of total that can be denied, so that at least the share is left. It
// rounds down.
func (s Share) Rest(total int64) int64 {
	return floorOf(new(big.Rat).Sub(big.NewRat(1, 1), s.value()), total)
}

func floorOf(fraction *big.Rat, total int64) int64 {
	part := new(big.Rat).Mul(fraction, new(big.Rat).SetInt64(total))
	return new(big.Int).Quo(part.Num(), part.Denom()).Int64()
}
