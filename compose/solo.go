package compose

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage/memory"
)

// solo is allow for the limiters that most are: with one rule, in place. It does
// what place.decide does, and leaves out what only several rules need.
func (l *Limiter[T]) solo(in T, n int64, results *room, d *Decision) (asked int, held bool, err error) {
	rule, r := &l.rules[0], &results[0]
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
	held, err = l.place.step(policy, l.name(0, r.Key), l.place.now(), cost, &r.Result)
	if err != nil {
		err = r.wrap(err)
	}
	d.Allowed, d.Skew = r.Allowed || r.Shadow, r.Skew
	if !r.Shadow {
		d.Rule, d.RetryAfter, d.Remaining = r.Rule, r.RetryAfter, r.Remaining
	}
	return 1, held, err
}

// step decides on the record of a name while it is locked, unless it cannot be.
func (p *place) step(policy algo.Policy, name memory.Name, now time.Time, cost int64, r *algo.Result) (held bool, err error) {
	var cell memory.Cell
	if p.store.Lock(&cell, now, name) != nil {
		return false, nil
	}
	defer cell.Unlock()
	var next []byte
	if next, *r, err = policy.Step(cell.Buffer(), cell.State(), now, cost); err != nil {
		return true, err
	}
	cell.Keep(next)
	if r.Allowed {
		cell.Put(next, ttl(r.ResetAfter))
	}
	return true, nil
}
