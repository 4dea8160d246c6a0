package compose

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// glance is ask for OpAllow. But where the limiter has one rule, and that denies on
// what is remembered, the decision is made here, in r and d, and the turn is nil. The
// engine would answer the same; but a key that is denied is asked for in floods, and
// this takes a third of the time, and no memory.
func (l *Limiter[T]) glance(ctx context.Context, in T, n int64, r *RuleResult, d *Decision) (*turn, error) {
	if len(l.rules) != 1 || l.options.StoreClock != nil {
		return l.ask(OpAllow, in, n)
	}
	group, rule := l.group(in), &l.rules[0]
	demand, err := rule.demand(in, n)
	if err != nil {
		return nil, err
	}
	if demand.policy == nil {
		return newTurn(OpAllow), nil
	}
	key := storage.AppendKey(make([]byte, 0, keyRoom), group, l.options.Namespace, rule.Name, demand.key)
	denied, glanced := false, false
	if ctx.Err() == nil && !rule.Shadow {
		denied, glanced = l.denies(&demand, key, l.options.Clock(), r)
	}
	if denied {
		r.Rule, r.Key, r.Policy, r.Cost = rule.Name, demand.key, demand.policy, demand.cost
		*d = Decision{Memory: true, Attempts: 1}
		d.summarizeOne(r)
		l.judge(d)
		return nil, nil
	}
	t := newTurn(OpAllow)
	t.glanced = glanced
	t.add(demand, string(key), rule.Name, rule.Shadow)
	return t, nil
}

// keyRoom is for the keys of most, on the stack.
const keyRoom = 128

// denies reports whether what is remembered of a key denies the demand. That is not
// known if the policy cannot read it.
func (l *Limiter[T]) denies(demand *demand, key []byte, now time.Time, r *RuleResult) (denied, known bool) {
	state, seen := l.engine.Glance(key, now)
	if !seen {
		return false, true
	}
	var err error
	r.Result, err = demand.policy.Peek(state, now, demand.cost)
	return err == nil && !r.Allowed, err == nil
}
