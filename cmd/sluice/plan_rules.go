package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
)

// ruleChange is a rule of OLD, of NEW or of both, with its counts.
type ruleChange struct {
	before, after *ruleSide // nil: the file has no rule with the name
	differences   []difference
	denied        replay.RuleShare // its part in the newly denied requests
	allowed       replay.RuleShare // its part in the newly allowed requests
}

// ruleSide is a rule in one of the two files.
type ruleSide struct {
	*config.Rule
	counts *replay.RuleOutcome
}

// difference is a field that differs between OLD and NEW.
type difference struct{ field, before, after string }

func (d difference) String() string { return fmt.Sprintf("%s: %s -> %s", d.field, d.before, d.after) }

// The values of ruleChange.kind.
const (
	unchanged = "unchanged"
	changed   = "changed"
	added     = "added"
	removed   = "removed"
)

func (c *ruleChange) kind() string {
	switch {
	case c.before == nil:
		return added
	case c.after == nil:
		return removed
	case len(c.differences) > 0:
		return changed
	}
	return unchanged
}

// rule returns the rule of NEW, or of OLD if it is removed.
func (c *ruleChange) rule() *config.Rule {
	if c.after != nil {
		return c.after.Rule
	}
	return c.before.Rule
}

// otherAlgorithm reports whether NEW cannot read the states that OLD stored for the rule.
func (c *ruleChange) otherAlgorithm() bool {
	return c.before != nil && c.after != nil && config.Algorithms(c.before.Policy) != config.Algorithms(c.after.Policy)
}

// otherAlgorithmRemedy says what otherAlgorithm means.
const otherAlgorithmRemedy = "the algorithm changes: sluice serve refuses NEW if its store has states of this rule; give the rule a new name"

// noLooser reports whether both files have the rule with one algorithm, at most its policy and its
// cost differ, and no bound grows.
func (c *ruleChange) noLooser() bool {
	if c.before == nil || c.after == nil || c.otherAlgorithm() {
		return false
	}
	for _, d := range c.differences {
		if d.field != "policy" && d.field != "cost" {
			return false
		}
	}
	return !slices.ContainsFunc(c.bounds(), func(b boundChange) bool { return *b.after > *b.before })
}

// compareRules matches the rules by name. They are in the order of NEW, and removed rules are at
// the end.
func compareRules(before, after *ruleSubject, counts *replay.ComparisonReport) (all []ruleChange) {
	old := make(map[string]*ruleSide)
	for i := range before.file.Rules {
		r := &before.file.Rules[i]
		old[r.Name] = &ruleSide{r, &counts.Before.Rules[i]}
	}
	for i := range after.file.Rules {
		r := &after.file.Rules[i]
		c := ruleChange{before: old[r.Name], after: &ruleSide{r, &counts.After.Rules[i]}}
		if c.before != nil {
			c.differences = ruleDifferences(c.before.Rule, r)
		}
		all = append(all, c)
		delete(old, r.Name)
	}
	for i := range before.file.Rules {
		if side := old[before.file.Rules[i].Name]; side != nil {
			all = append(all, ruleChange{before: side})
		}
	}
	for i := range all {
		name := all[i].rule().Name
		all[i].denied, all[i].allowed = counts.NewlyDeniedBy[name], counts.NewlyAllowedBy[name]
	}
	return all
}

// ruleDifferences returns the fields that differ between two rules with the same name.
func ruleDifferences(before, after *config.Rule) []difference {
	return differences([]difference{
		{"policy", before.Policy.String(), after.Policy.String()},
		{"by", before.ByString(), after.ByString()},
		{"missing", missingText(before), missingText(after)},
		{"cost", strconv.FormatInt(before.Cost.Units, 10), strconv.FormatInt(after.Cost.Units, 10)},
		{"methods", anyOf(methods(before)), anyOf(methods(after))},
		{"paths", anyOf(before.Paths), anyOf(after.Paths)},
		{"shadow", strconv.FormatBool(before.Shadow), strconv.FormatBool(after.Shadow)},
	})
}

// fileDifferences returns the fields outside of the rules that differ.
func fileDifferences(before, after *config.File) []difference {
	return differences([]difference{
		{"trusted", setText(texts(before.Trusted), "none"), setText(texts(after.Trusted), "none")},
		{"forwarded", strconv.FormatBool(before.Forwarded), strconv.FormatBool(after.Forwarded)},
		{"ipv6_bits", strconv.Itoa(cmp.Or(before.IPv6Bits, 64)), strconv.Itoa(cmp.Or(after.IPv6Bits, 64))},
	})
}

func differences(fields []difference) []difference {
	return slices.DeleteFunc(fields, func(d difference) bool { return d.before == d.after })
}

func missingText(r *config.Rule) string {
	if len(r.MayLack()) == 0 {
		return "no effect"
	}
	return string(cmp.Or(r.Missing, config.MissingIP))
}

func anyOf(words []string) string { return setText(words, "all") }

// setText returns the words in one order, whatever their order in the file.
func setText(words []string, none string) string {
	words = slices.Compact(slices.Sorted(slices.Values(words)))
	return cmp.Or(strings.Join(words, ", "), none)
}

// boundChange has the most requests that a rule admits for one key in any interval of this length.
type boundChange struct {
	interval      time.Duration
	before, after *int64 // nil: the file has no such rule; math.MaxInt64: that many or more
}

// bounds returns the bounds for the periods of the rule's limits in both files.
func (c *ruleChange) bounds() (all []boundChange) {
	var intervals []time.Duration
	for _, side := range []*ruleSide{c.before, c.after} {
		if side != nil {
			for _, limit := range limits(side.Policy) {
				intervals = append(intervals, limit.Period)
			}
		}
	}
	slices.Sort(intervals)
	for _, interval := range slices.Compact(intervals) {
		all = append(all, boundChange{interval, c.before.bound(interval), c.after.bound(interval)})
	}
	return all
}

func (s *ruleSide) bound(interval time.Duration) *int64 {
	if s == nil {
		return nil
	}
	b := requestBound(s.Rule, interval)
	return &b
}

// requestBound returns the most requests that the rule admits for one key in any interval of this
// length; math.MaxInt64 if the bound in units is that or more. The cost of the rule is not bytes.
func requestBound(r *config.Rule, interval time.Duration) int64 {
	bound := r.Policy.Bound(interval)
	if bound == math.MaxInt64 {
		return bound
	}
	return bound / r.Cost.Units
}

func (b boundChange) String() string {
	var most string
	switch {
	case b.before == nil:
		most = boundText(*b.after)
	case b.after == nil || *b.before == *b.after:
		most = boundText(*b.before)
	default:
		most = boundText(*b.before) + " -> " + boundText(*b.after)
	}
	return fmt.Sprintf("%s in any %s", most, intervalText(b.interval))
}

func boundText(n int64) string {
	if n == math.MaxInt64 {
		return "too many to count"
	}
	return strconv.FormatInt(n, 10)
}

func intervalText(d time.Duration) string { return cmp.Or(usualIntervals[d], algo.FormatDuration(d)) }

// strictestBound is the smallest bound of the rules of NEW for one interval.
type strictestBound struct {
	interval time.Duration
	most     int64
	rule     *config.Rule
}

func (s *strictestBound) mostText() string {
	if s.most == math.MaxInt64 {
		return "too many requests to count"
	}
	return "at most " + plural(s.most, "request")
}

// strictestBounds returns the smallest bound for a minute, an hour and a day. Rules in shadow mode
// and rules that applied to no request are left out. It returns nil if no rule remains.
func strictestBounds(rules []ruleChange) (all []strictestBound) {
	for _, interval := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		strictest := strictestBound{interval: interval}
		for i := range rules {
			side := rules[i].after
			if side == nil || side.Shadow || side.counts.Requests == 0 {
				continue
			}
			if most := requestBound(side.Rule, interval); strictest.rule == nil || most < strictest.most {
				strictest.most, strictest.rule = most, side.Rule
			}
		}
		if strictest.rule != nil {
			all = append(all, strictest)
		}
	}
	return all
}
