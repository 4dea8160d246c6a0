package suggest

import (
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

// Share is an exact percentage, above 0% and at most 100%. The zero Share is 0%.
type Share struct {
	text  string
	share *big.Rat // from 0 to 1
}

var percentage = regexp.MustCompile(`^\d{1,3}(\.\d{1,12})?%$`)

// ParseShare parses a percentage such as 99.9%.
func ParseShare(s string) (Share, error) {
	const want = "want a percentage above 0% and at most 100%, such as 99.9%"
	if !percentage.MatchString(s) {
		hint := ""
		if !strings.HasSuffix(s, "%") && valid(s+"%") {
			hint = "; did you mean " + s + "%?"
		}
		return Share{}, fmt.Errorf("%s: %s%s", errtext.Quote(s), want, hint)
	}
	percent, ok := new(big.Rat).SetString(strings.TrimSuffix(s, "%"))
	whole := big.NewRat(100, 1)
	if !ok || percent.Sign() <= 0 || percent.Cmp(whole) > 0 {
		return Share{}, fmt.Errorf("%s: %s", errtext.Quote(s), want)
	}
	return Share{s, percent.Quo(percent, whole)}, nil
}

func valid(share string) bool {
	_, err := ParseShare(share)
	return err == nil
}

// String returns the percentage as it was parsed.
func (s Share) String() string { return s.text }

// Percent returns the percentage, rounded.
func (s Share) Percent() float64 {
	if s.share == nil {
		return 0
	}
	percent, _ := new(big.Rat).Mul(s.share, big.NewRat(100, 1)).Float64()
	return percent
}

// Rest returns the most of total that can be denied, so that at least the share is left. It
// rounds down.
func (s Share) Rest(total int64) int64 {
	if s.share == nil {
		return total
	}
	rest := new(big.Rat).Sub(big.NewRat(1, 1), s.share)
	rest.Mul(rest, new(big.Rat).SetInt64(total))
	return new(big.Int).Quo(rest.Num(), rest.Denom()).Int64()
}
