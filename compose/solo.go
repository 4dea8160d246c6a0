package compose

import (
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/tokenbucket"
)

// solo is allow for the limiters that most are: with one rule, in place. It does
// what place.decide does, and leaves out what only several rules need. It reads the
// clock first, because the processor finishes what is before that and may begin
// what comes after.
func (l *Limiter[T]) solo(in T, n int64, r *RuleResult, d *Decision) (asked int, held bool, err error) {
	now, rule := l.place.moment(), &l.rules[0]
	policy, cost := rule.Policy, n
	if rule.Cost != nil || rule.Choose != nil || n < 1 {
		demand, err := rule.demand(in, n)
		if policy, cost = demand.policy, demand.cost; err != nil {
			return 0, true, err
		}
	}
	if policy == nil {
		d.Allowed = true
		return 0, true, nil
	}
	r.Rule, r.Policy, r.Shadow = rule.Name, policy, rule.Shadow
	if rule.Key != nil {
		r.Key = rule.Key(in)
	}
	held, err = l.place.step(l.name(0, r.Key), now, cost, r, d)
	if err != nil {
		err = r.wrap(err)
	}
	return 1, held, err
}

// step decides on the record of a name while it is locked, unless it cannot be.
func (p *place) step(name memory.Name, now moment, cost int64, r *RuleResult, d *Decision) (held bool, err error) {
	var cell memory.Cell
	if p.store.Lock(&cell, now.at, name) != nil {
		return false, nil
	}
	var room [longest]byte
	next, known, err := stepInto(r.Policy, cell.Room(room[:0]), cell.State(), min(now.at, algo.MaxInstant), cost, &r.Result)
	switch {
	case !known:
		return true, foreign(&cell, now, cost, r, d)
	case err == nil && r.Allowed:
		cell.Put(next, ttl(r.ResetAfter))
	}
	d.rests(r)
	cell.Unlock()
	return true, err
}

// rests is summarize for one result.
func (d *Decision) rests(r *RuleResult) {
	d.Allowed, d.Skew = r.Allowed || r.Shadow, r.Skew
	if !r.Shadow {
		d.Rule, d.RetryAfter, d.Remaining = r.Rule, r.RetryAfter, r.Remaining
	}
}

// longest is the length of the longest state of the policies that stepInto knows.
const longest = 35

// stepInto is Step of the policies that have a StepInto. They are known by name: of
// what is handed to a method of an interface, nothing could stay on the stack. And
// they never panic, so that nobody need be ready to unlock.
func stepInto(policy algo.Policy, dst, state []byte, at, cost int64, r *algo.Result) (next []byte, known bool, err error) {
	switch p := policy.(type) {
	case gcra.Policy:
		next, err = p.StepInto(dst, state, at, cost, r)
	case tokenbucket.Policy:
		next, err = p.StepInto(dst, state, at, cost, r)
	case fixedwindow.Policy:
		next, err = p.StepInto(dst, state, at, cost, r)
	default:
		return nil, false, nil
	}
	return next, true, err
}

// foreign is step, once the record is locked, for any other policy.
func foreign(cell *memory.Cell, now moment, cost int64, r *RuleResult, d *Decision) (err error) {
	defer cell.Unlock()
	var next []byte
	if next, r.Result, err = r.Policy.Step(cell.Buffer(), cell.State(), now.time(), cost); err != nil {
		return err
	}
	cell.Keep(next)
	if r.Allowed {
		cell.Put(next, ttl(r.ResetAfter))
	}
	d.rests(r)
	return nil
}
