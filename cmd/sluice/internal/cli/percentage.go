package cli

import (
	"math/big"
	"regexp"
	"strings"
)

// percentage bounds the length, because a number of any length would take any time.
var percentage = regexp.MustCompile(`^\d{1,3}(\.\d{1,18})?%$`)

// ParsePercentage parses a percentage from 0% to 100%. The share is exact, from 0 to 1.
func ParsePercentage(s string) (share *big.Rat, ok bool) {
	if !percentage.MatchString(s) {
		return nil, false
	}
	share, ok = new(big.Rat).SetString(strings.TrimSuffix(s, "%"))
	hundred := big.NewRat(100, 1)
	return share.Quo(share, hundred), ok && share.Cmp(big.NewRat(1, 1)) <= 0
}

// Part returns the share of total. It rounds down.
func Part(share *big.Rat, total int64) int64 {
	part := new(big.Rat).Mul(share, new(big.Rat).SetInt64(total))
	return new(big.Int).Quo(part.Num(), part.Denom()).Int64()
}
