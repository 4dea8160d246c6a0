package backtest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
)

// Comparison replays requests through old and new rules at the same time, and counts the requests
// that they decide differently. A request is newly denied if the old rules allow it and the new
// rules deny it. It is newly allowed in the opposite case. Only one goroutine may use it.
//
// Memory grows with Keys, not with the number of requests. A comparison keeps one text of a key that
// several rules have in common, and little more than the state of each rule, while that has not expired.
type Comparison[T any] struct {
	before, after *Rules[T]
	report        ComparisonReport // without what Report adds
	numbers       keyNumbers       // of clients and of the keys of all rules
	clients       []ClientChange   // by number; keys that are not clients have no requests
	clientCount   int64
}

// NewComparison returns a comparison of rules that have replayed no requests yet. From then on, the
// rules count no denials and no admitted units by key.
func NewComparison[T any](before, after *Rules[T]) *Comparison[T] {
	numbers := make(keyNumbers)
	before.shared, after.shared = numbers, numbers
	return &Comparison[T]{
		before:  before,
		after:   after,
		report:  ComparisonReport{NewlyDeniedBy: make(map[string]RuleShare), NewlyAllowedBy: make(map[string]RuleShare)},
		numbers: numbers,
	}
}

// RuleShare is the part that one enforced rule has in a change.
type RuleShare struct {
	Denied int64 // the newly denied or newly allowed requests that the rule denied, alone or with others
	Alone  int64 // those of them that no other enforced rule of its file denied
}

// ClientChange has the counts of one client. It has the form that the command prints as JSON.
type ClientChange struct {
	Client       string `json:"client"`
	Requests     int64  `json:"requests"`
	DeniedBefore int64  `json:"denied_before"`
	NewlyDenied  int64  `json:"newly_denied"`
	NewlyAllowed int64  `json:"newly_allowed"`
}

// Add replays one request of a client. Its time must not be before the previous request's.
func (c *Comparison[T]) Add(ctx context.Context, at time.Time, in T, client []byte) error {
	before, err := c.before.Add(ctx, at, in)
	if err != nil {
		return err
	}
	after, err := c.after.Add(ctx, at, in)
	if err != nil {
		return err
	}
	counts := element(&c.clients, c.numbers.of(client))
	if counts.Requests++; counts.Requests == 1 {
		counts.Client = string(client)
		c.clientCount++
	}
	if !before.Allowed {
		counts.DeniedBefore++
	}
	switch {
	case before.Allowed && !after.Allowed:
		counts.NewlyDenied++
		c.report.NewlyDenied++
		addShares(c.report.NewlyDeniedBy, after.Results)
	case !before.Allowed && after.Allowed:
		counts.NewlyAllowed++
		c.report.NewlyAllowed++
		addShares(c.report.NewlyAllowedBy, before.Results)
	}
	return nil
}

// addShares counts one newly denied or newly allowed request. results has the decisions of the rules.
func addShares(shares map[string]RuleShare, results []sluice.RuleResult) {
	alone := denier(results)
	for i := range results {
		r := &results[i]
		if r.Allowed || r.Shadow {
			continue
		}
		share := shares[r.Rule]
		share.Denied++
		if r.Rule == alone {
			share.Alone++
		}
		shares[r.Rule] = share
	}
}

// Keys returns how many clients, and keys of the rules on both sides, were seen. Memory grows with it.
func (c *Comparison[T]) Keys() int64 {
	return c.before.keys + c.after.keys + c.clientCount
}

// ComparisonReport has the counts of a comparison. Its members with a name are what the command
// prints as JSON.
type ComparisonReport struct {
	Before, After    RulesReport          `json:"-"` // without lists of keys; KeysDenied and Admitted of rules are 0
	NewlyDeniedBy    map[string]RuleShare `json:"-"` // by the names of the new rules; rules without a share are left out
	NewlyAllowedBy   map[string]RuleShare `json:"-"` // by the names of the old rules
	NewlyDenied      int64                `json:"newly_denied"`
	NewlyAllowed     int64                `json:"newly_allowed"`
	Clients          ClientCounts         `json:"clients"`
	MostNewlyDenied  []ClientChange       `json:"most_newly_denied"` // the clients with the most newly denied requests
	MostNewlyAllowed []ClientChange       `json:"most_newly_allowed"`
}

// ClientCounts has numbers of clients.
type ClientCounts struct {
	All          int64 `json:"all"`
	NewlyDenied  int64 `json:"newly_denied"`  // with at least one newly denied request
	NewlyAllowed int64 `json:"newly_allowed"` // with at least one newly allowed request
}

// Report returns the counts so far, with at most top clients in each list. Clients with equal
// counts are in the order of their bytes.
func (c *Comparison[T]) Report(top int) ComparisonReport {
	report := c.report
	report.Before, report.After = c.before.Report(0), c.after.Report(0)
	report.Clients.All = c.clientCount
	report.Clients.NewlyDenied, report.MostNewlyDenied = c.most(top, func(c *ClientChange) int64 { return c.NewlyDenied })
	report.Clients.NewlyAllowed, report.MostNewlyAllowed = c.most(top, func(c *ClientChange) int64 { return c.NewlyAllowed })
	return report
}

// most returns the number of clients whose count is not 0, and those with the largest counts.
func (c *Comparison[T]) most(top int, count func(*ClientChange) int64) (clients int64, most []ClientChange) {
	all := []ClientChange{}
	for i := range c.clients {
		if count(&c.clients[i]) > 0 {
			all = append(all, c.clients[i])
		}
	}
	slices.SortFunc(all, func(a, b ClientChange) int {
		return cmp.Or(cmp.Compare(count(&b), count(&a)), strings.Compare(a.Client, b.Client))
	})
	return int64(len(all)), slices.Clone(all[:min(len(all), top)])
}
