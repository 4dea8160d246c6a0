package replay

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage/memory"
)

// Rules is a replay under way of rules that decide together, each by a key of its
// own: what is replayed is a limiter, whose clock is that of the requests. It is
// for one goroutine.
type Rules[T any] struct {
	limiter  *compose.Limiter[T]
	rules    []ruleColumn
	together column // of whole decisions; its cells are not used
	timeline Timeline
	at       time.Time
	last     int64
}

// ruleColumn is one rule and what it did.
type ruleColumn struct {
	column
	name     string
	shadow   bool
	keys     keys
	requests int64
	alone    int64
}

// NewRules begins a replay. The policies are those of the rules in their order,
// which a rule's PolicyFor does not tell.
func NewRules[T any](rules []compose.Rule[T], policies []algo.Policy) (*Rules[T], error) {
	r := &Rules[T]{timeline: newTimeline(len(rules) + 1)}
	store := &memory.Store{MaxKeys: math.MaxInt}
	limiter, err := compose.Options[T]{Clock: func() time.Time { return r.at }}.New(store, rules...)
	if err != nil {
		return nil, err
	}
	r.limiter = limiter
	for i, rule := range rules {
		r.rules = append(r.rules, ruleColumn{column: newColumn(policies[i]), name: rule.Name, shadow: rule.Shadow})
	}
	return r, nil
}

// Add replays one request. Its time is not before the time of the one before.
func (r *Rules[T]) Add(ctx context.Context, at time.Time, in T) error {
	now := algo.Instant(at)
	if now < r.last {
		return fmt.Errorf("replay: request at %v comes after one at %v", at.UTC(), time.Unix(0, r.last).UTC())
	}
	r.at, r.last = at, now
	d, err := r.limiter.Allow(ctx, in)
	if err != nil {
		return err
	}
	r.timeline.at(now)
	r.noteTogether(&d)
	i := 0
	for j := range d.Results { // which are in the order of the rules, but not of all
		result := &d.Results[j]
		for r.rules[i].name != result.Rule {
			i++
		}
		r.rules[i].note(now, result)
		r.timeline.count(i, result.Allowed)
	}
	return nil
}

// noteTogether counts what the rules decided together.
func (r *Rules[T]) noteTogether(d *compose.Decision) {
	r.timeline.count(len(r.rules), d.Allowed)
	if d.Allowed {
		r.together.allowed++
		return
	}
	r.together.deny(d.RetryAfter)
	if name := denier(d.Results); name != "" {
		for i := range r.rules {
			if r.rules[i].name == name {
				r.rules[i].alone++
			}
		}
	}
}

// denier is the one rule but for which the request had been let through; empty if
// there are several.
func denier(results []compose.RuleResult) (name string) {
	for i := range results {
		switch r := &results[i]; {
		case r.Allowed || r.Shadow:
		case name != "":
			return ""
		default:
			name = r.Rule
		}
	}
	return name
}

func (c *ruleColumn) note(now int64, result *compose.RuleResult) {
	c.requests++
	id, seen := c.keys.ids[result.Key]
	if !seen {
		id = c.keys.add(result.Key)
		c.cells.grow()
	}
	c.column.note(c.cells.at(id), now, &result.Result)
}

// RulesReport is what came of a replay of rules.
type RulesReport struct {
	Requests    int64
	Allowed     int64         // let through by all rules that are enforced
	Denied      int64         // the others, which cost nothing under any rule
	LongestWait time.Duration // the longest RetryAfter that was told
	Never       int64         // denials that no wait would have helped
	Rules       []RuleOutcome
	Timeline    Timeline // by rule, what it decided of those it was for; the last is what all decided together
}

// RuleOutcome is what one rule did. Allowed and Denied are its own verdicts, but
// what a request took of it, only requests that were let through have taken.
type RuleOutcome struct {
	Rule     string
	Shadow   bool
	Requests int64 // that it was for
	Keys     int64
	Alone    int64 // requests that it denied, and no other rule that is enforced; 0 in shadow
	Outcome
}

// Report tells what came of the requests so far, with at most top keys in each
// list of keys, as [Replay.Report] does.
func (r *Rules[T]) Report(top int) RulesReport {
	report := RulesReport{
		Requests:    r.together.allowed + r.together.denied,
		Allowed:     r.together.allowed,
		Denied:      r.together.denied,
		LongestWait: r.together.longest,
		Never:       r.together.never,
		Timeline:    r.timeline.done(),
	}
	for i := range r.rules {
		c := &r.rules[i]
		report.Rules = append(report.Rules, RuleOutcome{
			Rule:     c.name,
			Shadow:   c.shadow,
			Requests: c.requests,
			Keys:     int64(len(c.keys.names)),
			Alone:    c.alone,
			Outcome:  c.outcome(c.keys.names, top),
		})
	}
	return report
}
