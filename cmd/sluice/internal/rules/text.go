package rules

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/calendar"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/fixedwindow"
)

// NoTrustedProxy is the warning about the rules of [config.File.LacksTrusted], before their names. Some of them may limit
// only requests without a user or header by ip.
const NoTrustedProxy = "no proxy is trusted; behind a proxy, all requests that are limited by ip share one limit under these rules"

// Name returns the name of a rule in tables.
func Name(r *config.Rule) string {
	if r.Shadow {
		return r.Name + " (shadow)"
	}
	return r.Name
}

// Text describes a rule, without its name.
func Text(r *config.Rule) string {
	text := fmt.Sprintf("%v by %s", r.Policy, r.ByString())
	if len(r.By) == 0 {
		text = fmt.Sprintf("%v for all requests together", r.Policy)
	}
	switch {
	case r.Cost.Bytes:
		text += ", a unit for each byte of the body"
	case r.Cost.Actual != "":
		text += fmt.Sprintf(", %s for each request until its response says the actual number in %s", readable.Plural(r.Cost.Units, "unit"), r.Cost.Actual)
	case r.Cost.Units != 1:
		text += fmt.Sprintf(", %d units for each request", r.Cost.Units)
	}
	var only []string
	if len(r.Methods) > 0 {
		only = append(only, readable.List(Methods(r), " and "))
	}
	if len(r.Paths) > 0 {
		only = append(only, readable.List(r.Paths, " and "))
	}
	if len(only) > 0 {
		text += ", only " + strings.Join(only, " of ")
	}
	if except := r.Except.Texts(); len(except) > 0 {
		text += ", except " + readable.List(except, ", ")
	}
	if len(r.Count) > 0 {
		text += ", charged only if the status is " + readable.List(r.Count, " or ")
	}
	return text
}

// Methods returns the methods that the rule applies to.
func Methods(r *config.Rule) []string {
	get := slices.Index(r.Methods, http.MethodGet)
	if get < 0 || slices.Contains(r.Methods, http.MethodHead) {
		return r.Methods
	}
	return slices.Insert(slices.Clone(r.Methods), get+1, http.MethodHead)
}

// Rates returns the limit of a policy, or of each part of a stack, as text. The period of a calendar is a word, such as month.
func Rates(p algo.Policy) (all []string) {
	for _, part := range backtest.Parts(p) {
		rate := part.Limit().String()
		if c, ok := part.(calendar.Policy); ok {
			rate = fmt.Sprintf("%d/%v", c.Options().Count, c.Options().Unit)
		}
		all = append(all, rate)
	}
	return all
}

// UsualIntervals are the intervals for which check prints the bounds of each rule.
var UsualIntervals = map[time.Duration]string{time.Second: "second", time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day"}

// BoundUnit returns what [Bound] counts: the word request, byte for cost: bytes, or unit if responses report the actual cost. If a rule
// does not charge all responses, the word "charged" comes first.
func BoundUnit(r *config.Rule) string {
	unit := Request
	switch {
	case r.Cost.Bytes:
		unit = "byte"
	case r.Cost.Actual != "":
		unit = "unit"
	}
	return Charged(r) + unit
}

// Request is the BoundUnit of a rule that charges a fixed cost for each request.
const Request = "request"

// Charged begins the name of a unit if a rule does not charge all responses.
func Charged(r *config.Rule) string {
	if len(r.Count) > 0 {
		return "charged "
	}
	return ""
}

// Bound returns the most that the rule admits for one key in any interval of this length, in the unit of [BoundUnit]; math.MaxInt64 if
// the bound is that or more.
func Bound(r *config.Rule, interval time.Duration) int64 {
	if r.Cost.Bytes || r.Cost.Actual != "" {
		return r.Policy.Bound(interval)
	}
	least := int64(math.MaxInt64)
	for _, part := range backtest.Parts(r.Policy) {
		least = min(least, requestBound(part, r.Cost.Units, interval))
	}
	return least
}

// requestBound returns the most requests of this cost that a policy without parts admits.
func requestBound(p algo.Policy, cost int64, interval time.Duration) int64 {
	switch windows := p.(type) { // the units that are too few for one more request in a window are lost at its end
	case fixedwindow.Policy:
		o := windows.Options()
		o.Limit.Count /= cost
		p, _ = fixedwindow.New(o) // if the count is now 0, the zero Policy, which admits nothing
		cost = 1
	case calendar.Policy:
		o := windows.Options()
		o.Count /= cost
		p, _ = calendar.New(o)
		cost = 1
	}
	bound := p.Bound(interval)
	if bound == math.MaxInt64 {
		return bound
	}
	return bound / cost
}

// BoundText returns a bound without its unit.
func BoundText(n int64) string {
	if n == math.MaxInt64 {
		return "too many to count"
	}
	return strconv.FormatInt(n, 10)
}

// BoundUnits returns a bound with its unit.
func BoundUnits(n int64, unit string) string {
	if n == math.MaxInt64 {
		return "too many " + unit + "s to count"
	}
	return readable.Plural(n, unit)
}

func IntervalText(d time.Duration) string { return cmp.Or(UsualIntervals[d], readable.Exact(d)) }

// Denials returns the table of the keys that a rule denies most. A rule without fields has only one key.
func Denials(rule *config.Rule, name string, most []backtest.Denials) string {
	if len(rule.By) == 0 {
		return ""
	}
	table := "\n" + report.Row("denied most by "+name+", "+rule.ByString(), "denied") + "\n"
	for _, d := range most {
		table += report.Row(readable.Shorten(printable(d.Key, len(rule.By))), d.Denied) + "\n"
	}
	return table
}

// printable escapes a key, and returns - for an empty key. Keys of several fields are already
// quoted.
func printable(key string, fields int) string {
	if key == "" {
		return "-"
	}
	if quoted := strconv.QuoteToGraphic(key); fields == 1 && strings.Contains(quoted, `\`) {
		return quoted[1 : len(quoted)-1]
	}
	return key
}
