package algotest

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
)

func limitIsReported(p *point) {
	limit := p.policy.Limit()
	p.require(p.subject.Composed || limit == p.limit, "the limit is %v, but Limit returns %v", p.limit, limit)
}

// limitMayChange changes the limit at the time of the last event. After that, units come back
// at the new rate, and the result depends on the algorithm.
func limitMayChange(p *point) {
	if p.now != p.past.latest {
		return
	}
	oldLimit, oldPolicy := p.limit, p.policy
	for _, l := range limitChanges(oldLimit) {
		policy, err := p.new(l)
		if err != nil {
			continue
		}
		p.clearProbes()
		p.limit, p.policy = oldLimit, oldPolicy
		before := p.peek(p.state, p.now, 1)
		p.limit, p.policy = l, policy
		p.requireUseKept(oldLimit, before)
	}
}

func limitChanges(l algo.Limit) (all []algo.Limit) {
	for _, count := range []int64{1, l.Count / 2, l.Count - 1, l.Count + 1, l.Count + l.Count/2, 2 * l.Count, 1 << 30, algo.MaxCount} {
		for _, period := range []time.Duration{l.Period, l.Period/2 + 1, l.Period + 1, time.Second} {
			all = append(all, algo.Per(count, period))
		}
	}
	return all
}

// requireUseKept requires that the units used under the old limit stay used under the
// point's limit.
func (p *point) requireUseKept(old algo.Limit, before algo.Result) {
	after := p.peek(p.state, p.now, 1)
	if !isExact(after) {
		return // the use is out of range under the new limit
	}
	if r := p.past.event.r; r.Fresh && r.Paid > 0 {
		p.requirePaidUnderNewLimit(old, r.Paid)
	}
	switch {
	case p.subject.Composed:
		grew := after.Remaining >= before.Remaining
		shrank := after.Remaining <= before.Remaining
		p.require(p.limit.Period != old.Period || (p.limit.Count < old.Count || grew) && (p.limit.Count > old.Count || shrank),
			"the limit changes from %v to %v, and Remaining from %d to %d", old, p.limit, before.Remaining, after.Remaining)
	case p.subject.Windowed && max(old.Count, p.limit.Count) >= 1<<50/old.Period.Microseconds():
		return // the overlap of a slot may be rounded differently under the two limits
	case p.limit.Period == old.Period || !p.subject.Windowed:
		p.require(before.Limit-before.Remaining == after.Limit-after.Remaining,
			"under %v %d of %d units are left, so %d are used; at the same instant under %v %d of %d are left, so %d are used", old,
			before.Remaining, before.Limit, before.Limit-before.Remaining, p.limit, after.Remaining, after.Limit, after.Limit-after.Remaining)
		p.requireSpendable(after.Remaining)
		p.requireWaits(old, after)
	}
}

// requirePaidUnderNewLimit requires that a key that was new before the last event decides as if
// the event had paid under the new limit: no unit has come back since.
func (p *point) requirePaidUnderNewLimit(old algo.Limit, units int64) {
	paid, r := p.call(charge, nil, p.now, units)
	if r.Paid == units {
		p.requireAlike(paid, p.state, p.now, sameResult, fmt.Sprintf("after %d units were paid under %v, or under %v before it changed to that", units, p.limit, old))
	}
}

// requireSpendable requires that a step under the new limit can take exactly the units left.
func (p *point) requireSpendable(left int64) {
	for _, cost := range []int64{left, left + 1} {
		if cost < 1 {
			continue
		}
		_, r := p.call(step, p.state, p.now, cost)
		p.require(r.Allowed == (cost <= left), "the limit changes to %v and %d units are left, but Allowed of cost %d is %v", p.limit, left, cost, r.Allowed)
	}
}

// requireWaits compares the waits of the key with those of a key that pays the same units now, under the new limit.
// They must not be longer. They may be shorter by less than the time to the next refill, of which a part may have
// passed. Units in a moving window have different ages, so they may come back sooner.
func (p *point) requireWaits(old algo.Limit, after algo.Result) {
	used := after.Limit - after.Remaining
	if used < 1 {
		return
	}
	paid, r := p.call(charge, nil, p.now, used)
	if r.Paid != used || !isExact(r) {
		return
	}
	now := p.peek(paid, p.now, 1)
	compare := func(what string, wait, most time.Duration) {
		least := most - now.NextRefill
		if p.subject.Windowed {
			least = 0
		}
		p.require(least <= wait && wait <= most, "%d units are used when %v changes to %v, and %s is %v; for a key that just paid as many it is %v, with NextRefill %v",
			used, old, p.limit, what, wait, most, now.NextRefill)
	}
	compare("NextRefill", after.NextRefill, now.NextRefill)
	compare("ResetAfter", after.ResetAfter, now.ResetAfter)
	for _, cost := range []int64{after.Remaining + 1, after.Limit/2 + 1, after.Limit} {
		cost = max(cost, 1)
		compare("RetryAfter", p.peek(p.state, p.now, cost).RetryAfter, p.peek(paid, p.now, cost).RetryAfter)
	}
}
