package suggest

import (
	"fmt"
	"math/big"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/internal/errtext"
)

// Goal says how much of a log a policy must leave untouched.
type Goal struct {
	Share *big.Rat // from 0 to 1
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

// Count returns the count that the goal limits.
func (g Goal) Count(c *Counts) int64 {
	if g.Of == OfClients {
		return c.ClientsDenied
	}
	return c.Denied
}

// Allowed returns the most of total that can be denied, so that at least the share is left. It rounds down.
func (g Goal) Allowed(total int64) int64 {
	return cli.Part(new(big.Rat).Sub(big.NewRat(1, 1), g.Share), total)
}

// ParseShare parses a percentage above 0%, such as 99.9%.
func ParseShare(s string) (*big.Rat, error) {
	if share, ok := cli.ParsePercentage(s); ok && share.Sign() > 0 {
		return share, nil
	}
	hint := ""
	if share, ok := cli.ParsePercentage(s + "%"); ok && share.Sign() > 0 {
		hint = "; did you mean " + s + "%?"
	}
	return nil, fmt.Errorf("%s: want a percentage above 0%% and at most 100%%, such as 99.9%%%s", errtext.Quote(s), hint)
}
