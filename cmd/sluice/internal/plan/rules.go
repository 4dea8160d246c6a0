package plan

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
	"github.com/sluice-go/sluice/compose"
)

// ruleChange is a rule of OLD, of NEW or of both, with its counts.
type ruleChange struct {
	Rule              string        `json:"rule"`
	Change            string        `json:"change"` // unchanged, changed, added or removed
	Differences       []difference  `json:"differences"`
	OtherAlgorithm    bool          `json:"other_algorithm"` // all units are available again; see compose.Kind
	Old               *ruleSide     `json:"old"`             // nil: the rule is added
	New               *ruleSide     `json:"new"`             // nil: the rule is removed
	NewlyDenied       int64         `json:"newly_denied"`
	NewlyDeniedAlone  int64         `json:"newly_denied_alone"`
	NewlyAllowed      int64         `json:"newly_allowed"`
	NewlyAllowedAlone int64         `json:"newly_allowed_alone"`
	Bounds            []boundChange `json:"bounds"` // for the periods of the rule's limits in both files

	rule *config.Rule // of NEW, or of OLD if it is removed
}

// ruleSide is a rule in one of the two files.
type ruleSide struct {
	Policy   string   `json:"policy"`
	By       []string `json:"by"`
	Cost     int64    `json:"cost"`
	Shadow   bool     `json:"shadow"`
	Requests int64    `json:"requests"`
	Denied   int64    `json:"denied"`
	Keys     int64    `json:"keys"`
	// BoundUnit is what the rule's bounds count; see rules.BoundUnit.
	BoundUnit string `json:"bound_unit"`

	rule *config.Rule
}

func newRuleSide(r *config.Rule, o *backtest.RuleOutcome) *ruleSide {
	return &ruleSide{r.Policy.String(), readable.Texts(r.By), r.Cost.Units, r.Shadow, o.Requests, o.Denied, o.Keys, rules.BoundUnit(r), r}
}

// difference is a field that differs between OLD and NEW.
type difference struct {
	Field string `json:"field"`
	Old   string `json:"old"`
	New   string `json:"new"`
}

func (d difference) String() string { return fmt.Sprintf("%s: %s -> %s", d.Field, d.Old, d.New) }

// The values of ruleChange.Change.
const (
	unchanged = "unchanged"
	changed   = "changed"
	added     = "added"
	removed   = "removed"
)

// otherAlgorithmEffect says what OtherAlgorithm means.
const otherAlgorithmEffect = "the algorithm changes: all units of this rule are available again when sluice serve loads NEW"

// noLooser reports whether both files have the rule, at most the numbers in its policy and its cost differ, and no bound grows. A bound
// does not show when windows begin, or how long a penalty lasts. A penalty that begins earlier also ends earlier, so with another
// number it is not stricter.
func (c *ruleChange) noLooser() bool {
	if c.Old == nil || c.New == nil || withoutNumbers(c.Old.Policy) != withoutNumbers(c.New.Policy) {
		return false
	}
	_, penalty := c.New.rule.Policy.(*compose.Penalty)
	for _, d := range c.Differences {
		if penalty || d.Field != "policy" && d.Field != "cost" {
			return false
		}
	}
	return !slices.ContainsFunc(c.Bounds, func(b boundChange) bool { return *b.New > *b.Old })
}

var countOrBurst = regexp.MustCompile(`\d+/| burst=\d+`)

// withoutNumbers returns the spec of a policy without its counts and bursts.
func withoutNumbers(spec string) string { return countOrBurst.ReplaceAllString(spec, "") }

// compareRules matches the rules by name. They are in the order of NEW, and removed rules are at
// the end.
func compareRules(before, after *rules.Subject, counts *backtest.ComparisonReport) (all []ruleChange) {
	old := make(map[string]*ruleSide)
	for i := range before.File.Rules {
		r := &before.File.Rules[i]
		old[r.Name] = newRuleSide(r, &counts.Before.Rules[i])
	}
	for i := range after.File.Rules {
		r := &after.File.Rules[i]
		all = append(all, newRuleChange(old[r.Name], newRuleSide(r, &counts.After.Rules[i]), counts))
		delete(old, r.Name)
	}
	for i := range before.File.Rules {
		if side := old[before.File.Rules[i].Name]; side != nil {
			all = append(all, newRuleChange(side, nil, counts))
		}
	}
	return all
}

func newRuleChange(before, after *ruleSide, counts *backtest.ComparisonReport) ruleChange {
	rule := cmp.Or(after, before).rule
	denied, allowed := counts.NewlyDeniedBy[rule.Name], counts.NewlyAllowedBy[rule.Name]
	c := ruleChange{
		Rule:              rule.Name,
		Change:            unchanged,
		Differences:       []difference{}, // nil would be null in JSON
		Old:               before,
		New:               after,
		NewlyDenied:       denied.Denied,
		NewlyDeniedAlone:  denied.Alone,
		NewlyAllowed:      allowed.Denied,
		NewlyAllowedAlone: allowed.Alone,
		Bounds:            boundChanges(before, after),
		rule:              rule,
	}
	switch {
	case before == nil:
		c.Change = added
	case after == nil:
		c.Change = removed
	default:
		c.Differences = ruleDifferences(before.rule, after.rule)
		c.OtherAlgorithm = compose.Kind(before.rule.Policy) != compose.Kind(after.rule.Policy)
		if len(c.Differences) > 0 {
			c.Change = changed
		}
	}
	return c
}

// ruleDifferences returns the fields that differ between two rules with the same name.
func ruleDifferences(before, after *config.Rule) []difference {
	return differences([]difference{
		{"policy", before.Policy.String(), after.Policy.String()},
		{"by", before.ByString(), after.ByString()},
		{"missing", missingText(before), missingText(after)},
		{"cost", strconv.FormatInt(before.Cost.Units, 10), strconv.FormatInt(after.Cost.Units, 10)},
		{"actual cost", setText([]string{before.Cost.Actual}, "none"), setText([]string{after.Cost.Actual}, "none")},
		{"count", anyOf(readable.Texts(before.Count)), anyOf(readable.Texts(after.Count))},
		{"methods", anyOf(rules.Methods(before)), anyOf(rules.Methods(after))},
		{"paths", anyOf(before.Paths), anyOf(after.Paths)},
		{"except", setText(before.Except.Texts(), "none"), setText(after.Except.Texts(), "none")},
		{"shadow", strconv.FormatBool(before.Shadow), strconv.FormatBool(after.Shadow)},
	})
}

// sameRules reports whether two lists have the same rules, in any order.
func sameRules(before, after []config.Rule) bool {
	differs := func(a config.Rule) bool {
		i := slices.IndexFunc(after, func(b config.Rule) bool { return b.Name == a.Name })
		return i < 0 || len(ruleDifferences(&a, &after[i])) > 0
	}
	return len(before) == len(after) && !slices.ContainsFunc(before, differs)
}

// fileDifferences returns the fields outside of the rules that differ.
func fileDifferences(before, after *config.File) []difference {
	return differences([]difference{
		{"trusted", setText(readable.Texts(before.Trusted), "none"), setText(readable.Texts(after.Trusted), "none")},
		{"forwarded", strconv.FormatBool(before.Forwarded), strconv.FormatBool(after.Forwarded)},
		{"ipv6_bits", strconv.Itoa(cmp.Or(before.IPv6Bits, 64)), strconv.Itoa(cmp.Or(after.IPv6Bits, 64))},
	})
}

func differences(fields []difference) []difference {
	return slices.DeleteFunc(fields, func(d difference) bool { return d.Old == d.New })
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

// boundChange has the most that a rule admits for one key in any interval of this length.
type boundChange struct {
	Interval string `json:"interval"`
	Old      *int64 `json:"old"` // in BoundUnit; nil: the file has no such rule; math.MaxInt64: that many or more
	New      *int64 `json:"new"`

	length        time.Duration // of Interval
	before, after *ruleSide
}

func boundChanges(before, after *ruleSide) (all []boundChange) {
	var intervals []time.Duration
	for _, side := range []*ruleSide{before, after} {
		if side != nil {
			for _, part := range backtest.Parts(side.rule.Policy) {
				intervals = append(intervals, part.Limit().Period)
			}
		}
	}
	slices.Sort(intervals)
	for _, length := range slices.Compact(intervals) {
		all = append(all, boundChange{length.String(), before.bound(length), after.bound(length), length, before, after})
	}
	return all
}

func (s *ruleSide) bound(interval time.Duration) *int64 {
	if s == nil {
		return nil
	}
	b := rules.Bound(s.rule, interval)
	return &b
}

func (b boundChange) String() string {
	var most string
	switch {
	case b.Old == nil:
		most = rules.BoundUnits(*b.New, b.after.BoundUnit)
	case b.New == nil || *b.Old == *b.New && b.before.BoundUnit == b.after.BoundUnit:
		most = rules.BoundUnits(*b.Old, b.before.BoundUnit)
	case b.before.BoundUnit == b.after.BoundUnit:
		most = rules.BoundText(*b.Old) + " -> " + rules.BoundUnits(*b.New, b.after.BoundUnit)
	default:
		most = rules.BoundUnits(*b.Old, b.before.BoundUnit) + " -> " + rules.BoundUnits(*b.New, b.after.BoundUnit)
	}
	return fmt.Sprintf("%s in any %s", most, rules.IntervalText(b.length))
}

// strictestBound is the smallest bound of the rules of NEW for one interval.
type strictestBound struct {
	Interval string `json:"interval"`
	Bound    int64  `json:"bound"`
	Rule     string `json:"rule"`

	length time.Duration // of Interval
	rule   *config.Rule
}

// Most returns the bound.
func (s *strictestBound) Most() string {
	most := rules.BoundUnits(s.Bound, rules.Request)
	if s.Bound == math.MaxInt64 {
		return most
	}
	return "at most " + most
}

// IntervalText returns the interval for people.
func (s *strictestBound) IntervalText() string { return rules.IntervalText(s.length) }

// RuleText describes the rule.
func (s *strictestBound) RuleText() string { return rules.Text(s.rule) }

// strictestBounds returns the smallest bound for a minute, an hour and a day. Rules in shadow mode,
// rules that applied to no request, and rules whose bound is not in requests are left out. It returns no bounds if no rule remains.
func strictestBounds(changes []ruleChange) []strictestBound {
	all := []strictestBound{} // nil would be null in JSON
	for _, length := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		strictest := strictestBound{Interval: length.String(), length: length}
		for i := range changes {
			side := changes[i].New
			if side == nil || side.Shadow || side.Requests == 0 || side.BoundUnit != rules.Request {
				continue
			}
			if bound := rules.Bound(side.rule, length); strictest.rule == nil || bound < strictest.Bound {
				strictest.Bound, strictest.Rule, strictest.rule = bound, side.rule.Name, side.rule
			}
		}
		if strictest.rule != nil {
			all = append(all, strictest)
		}
	}
	return all
}
