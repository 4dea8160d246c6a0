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
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/compose"
)

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

// Limits returns the limit of a policy, or of each part of a stack, also of one inside a penalty.
func Limits(p algo.Policy) (all []algo.Limit) {
	stack := compose.StackOf(p)
	if stack == nil {
		return []algo.Limit{p.Limit()}
	}
	for _, part := range stack.Parts() {
		all = append(all, part.Limit())
	}
	return all
}

// UsualIntervals are the intervals for which check prints the bounds of each rule.
var UsualIntervals = map[time.Duration]string{time.Second: "second", time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day"}

// RequestBound returns the most requests, bytes for cost: bytes, or units if responses report the actual cost, that the rule admits for one key in
// any interval of this length; math.MaxInt64 if the bound in units is that or more.
func RequestBound(r *config.Rule, interval time.Duration) int64 {
	bound := r.Policy.Bound(interval)
	if bound == math.MaxInt64 || r.Cost.Bytes || r.Cost.Actual != "" {
		return bound
	}
	return bound / r.Cost.Units
}

func BoundText(n int64) string {
	if n == math.MaxInt64 {
		return "too many to count"
	}
	return strconv.FormatInt(n, 10)
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
