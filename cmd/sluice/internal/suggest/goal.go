package suggest

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"github.com/sluice-go/sluice/internal/errtext"
)

// Goal says how much of a log a policy must leave untouched.
type Goal struct {
	Share Share
	Of    Unit
}

// Unit is what a share is a share of.
type Unit string

const (
	// OfRequests counts requests that are not denied.
	OfRequests Unit = "requests"
	// OfClients counts keys of which no request is denied.
	OfClients Unit = "clients"
)

// ParseUnit parses "requests" or "clients".
func ParseUnit(s string) (Unit, error) {
	if u := Unit(s); u == OfRequests || u == OfClients {
		return u, nil
	}
	return "", fmt.Errorf("%s is not known; want requests or clients", errtext.Quote(s))
}

// Count returns the count that the goal limits.
func (g Goal) Count(c *Counts) int64 {
	if g.Of == OfClients {
		return c.ClientsDenied
	}
	return c.Denied
}

// Share is an exact percentage from 0% to 100%. The zero Share is 0%.
type Share struct {
	text     string
	fraction *big.Rat // from 0 to 1; nil: 0
}

// percentage bounds the length, because a number of any length would take any time.
var percentage = regexp.MustCompile(`^\d{1,3}(\.\d{1,18})?%$`)

// ParseShare parses a percentage above 0%, such as 99.9%.
func ParseShare(s string) (Share, error) {
	if share, ok := ParsePercentage(s); ok && share.fraction.Sign() > 0 {
		return share, nil
	}
	hint := ""
	if share, ok := ParsePercentage(s + "%"); ok && share.fraction.Sign() > 0 {
		hint = "; did you mean " + s + "%?"
	}
	return Share{}, fmt.Errorf("%s: want a percentage above 0%% and at most 100%%, such as 99.9%%%s", errtext.Quote(s), hint)
}

// ParsePercentage parses a percentage from 0% to 100%.
func ParsePercentage(s string) (share Share, ok bool) {
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
