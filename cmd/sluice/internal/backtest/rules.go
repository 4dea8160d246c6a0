package backtest

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/costed"
	"github.com/sluice-go/sluice/storage/memory"
)

// Rules replays requests through rules that decide together, each by its own key. It uses a
// sluice.Limiter whose clock is the time of the requests. Only one goroutine may use it.
type Rules[T any] struct {
	limiter  *sluice.Limiter[T]
	store    *memory.Store
	rules    []ruleColumn[T]
	together Counts // of whole decisions
	timeline Timeline
	at       time.Time
	requests int64
	keys     int64      // of all rules
	shared   keyNumbers // of a comparison: keys are counted only; else nil

	// Settle returns the input for which Rule.Cost is the actual cost, and false if that is the estimate. An allowed request is
	// settled right after its decision. Nil means that each request costs its estimate.
	Settle func(in T) (settled T, ok bool)
}

// ruleColumn has one rule and its counts.
type ruleColumn[T any] struct {
	column
	name    string
	cost    func(T) int64 // of the rule; may be nil
	outcome RuleOutcome   // without the Outcome of column
	ids     keyNumbers
	counted []bool // by number, in place of ids and cells, if the numbers of keys are shared
}

// NewRules returns a replay of rules. policies has the policy of each rule, because a rule with
// PolicyFor does not show it.
func NewRules[T any](rules []sluice.Rule[T], policies []algo.Policy) (*Rules[T], error) {
	r := &Rules[T]{timeline: newTimeline(len(rules) + 1)}
	clock := func() time.Time { return r.at }
	r.store = &memory.Store{MaxKeys: math.MaxInt, Clock: clock}
	limiter, err := sluice.Options[T]{Clock: clock}.New(r.store, rules...)
	if err != nil {
		return nil, err
	}
	r.limiter = limiter
	for i, rule := range rules {
		r.rules = append(r.rules, ruleColumn[T]{
			cost:   rule.Cost,
			column: newColumn(costed.One(policies[i])),
			name:   rule.Name,
			ids:    make(keyNumbers),
		})
	}
	return r, nil
}

// sweepInterval is the number of requests between the removals of expired states.
const sweepInterval = 4096

// Add replays one request and returns the decision. Its time must not be before the previous request's.
func (r *Rules[T]) Add(ctx context.Context, at time.Time, in T) (sluice.Decision, error) {
	r.timeline.at(at)
	r.at = at
	if r.requests++; r.requests%sweepInterval == 0 {
		if _, err := r.store.Purge(ctx, math.MaxInt); err != nil {
			return sluice.Decision{}, err
		}
	}
	d, settled, err := r.decide(ctx, in)
	if err != nil {
		return d, err
	}
	r.noteTogether(&d)
	i := 0
	for j := range d.Results { // in the order of the rules; rules that do not apply have no result
		result := &d.Results[j]
		for r.rules[i].name != result.Rule {
			i++
		}
		if settled != nil && r.rules[i].cost != nil && r.rules[i].cost(*settled) == 0 {
			result.Paid = 0 // it is given back
		}
		if isNew := r.rules[i].note(at, result, r.shared); isNew {
			r.keys++
		}
		r.timeline.count(i, result.Allowed)
	}
	return d, nil
}

// decide decides a request, and settles it if it is allowed. settled is the input that it was settled with, or nil.
func (r *Rules[T]) decide(ctx context.Context, in T) (d sluice.Decision, settled *T, err error) {
	if r.Settle == nil {
		d, err = r.limiter.Allow(ctx, in)
		return d, nil, err
	}
	reservation, d, err := r.limiter.Reserve(ctx, in, 1)
	if err != nil || !d.Allowed {
		return d, nil, err
	}
	actual, ok := r.Settle(in)
	if !ok {
		return d, nil, nil
	}
	_, err = reservation.SettleFor(ctx, actual)
	return d, &actual, err
}

// noteTogether counts the decision of all rules together.
func (r *Rules[T]) noteTogether(d *sluice.Decision) {
	r.timeline.count(len(r.rules), d.Allowed)
	if d.Allowed {
		r.together.Allowed++
		return
	}
	r.together.Deny(d.RetryAfter)
	name := denier(d.Results)
	if i := slices.IndexFunc(r.rules, func(c ruleColumn[T]) bool { return c.name == name }); i >= 0 {
		r.rules[i].outcome.Alone++
	}
}

// denier returns the only enforced rule that denied the request; empty if several did.
func denier(results []sluice.RuleResult) (name string) {
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

// note counts a decision of the rule, and reports whether its key is new. If shared is not nil, it keeps
// only whether it knows the key.
func (c *ruleColumn[T]) note(at time.Time, result *sluice.RuleResult, shared keyNumbers) (isNew bool) {
	c.outcome.Requests++
	if shared == nil {
		id := c.ids.of([]byte(result.Key))
		isNew = int(id) == len(c.cells)
		c.column.note(element(&c.cells, id), at, &result.Result)
	} else {
		c.Counts.count(&result.Result)
		known := element(&c.counted, shared.of([]byte(result.Key)))
		isNew, *known = !*known, true
	}
	if isNew {
		c.outcome.Keys++
	}
	return isNew
}

// RulesReport has the counts of a replay of rules.
type RulesReport struct {
	Requests int64
	Counts   // allowed by all enforced rules, and all others; denied requests cost nothing under any rule
	Rules    []RuleOutcome
	Timeline Timeline // by rule, for the requests that it applies to; the last row is for all rules together
}

// RuleOutcome has the counts of one rule. Allowed and Denied count the rule's own decisions. Only
// requests that all rules allowed have charged it.
type RuleOutcome struct {
	Requests int64 // that the rule applied to
	Keys     int64
	Alone    int64 // requests that only this enforced rule denied; 0 in shadow mode
	Outcome
}

// Report returns the counts so far, with at most top keys in each list of keys, as
// [Replay.Report] does.
func (r *Rules[T]) Report(top int) RulesReport {
	report := RulesReport{Requests: r.requests, Counts: r.together, Timeline: r.timeline.done()}
	for i := range r.rules {
		c := &r.rules[i]
		o := c.outcome
		o.Outcome, _ = c.column.outcome(c.ids, top)
		report.Rules = append(report.Rules, o)
	}
	return report
}
