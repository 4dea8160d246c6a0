package algotest

import (
	"fmt"
	"math"

	"github.com/sluice-go/sluice/algo"
)

func costsAddUp(p *point) {
	for _, c1 := range p.costs() {
		for _, c2 := range p.costs() {
			p.clearProbes()
			first, r1 := p.call(step, p.state, p.now, c1)
			if !r1.Allowed {
				break
			}
			second, r2 := p.call(step, first, p.now, c2)
			if !r2.Allowed || c1+c2 < 0 {
				continue
			}
			once, r := p.call(step, p.state, p.now, c1+c2)
			p.require(r.Allowed, "%d and then %d are allowed at %s, but %d at once is denied", c1, c2, offset(p.now), c1+c2)
			if r.Remaining != r2.Remaining || r.NextRefill != r2.NextRefill || r.ResetAfter != r2.ResetAfter {
				p.fail("steps of %d and then %d at %s return\n    %+v, and a step of %d\n    %+v", c1, c2, offset(p.now), r2, c1+c2, r)
			}
			p.requireAlike(second, once, max(p.now, p.past.latest), sameDecision, "after two steps, or one of their sum")
		}
	}
}

// largerCostIsHarder also tries costs whose sums overflow 64 bits.
func largerCostIsHarder(p *point) {
	costs := append(p.costs(), 1<<62+1, math.MaxInt64-1, math.MaxInt64)
	for i := 1; i < len(costs); i++ {
		p.clearProbes()
		_, smaller := p.call(step, p.state, p.now, costs[i-1])
		_, larger := p.call(step, p.state, p.now, costs[i])
		p.require(smaller.Allowed || !larger.Allowed, "cost %d is denied, but cost %d is allowed", costs[i-1], costs[i])
		p.require(smaller.RetryAfter <= larger.RetryAfter, "cost %d has RetryAfter %v, but cost %d has %v", costs[i-1], smaller.RetryAfter, costs[i], larger.RetryAfter)
	}
}

// accountsAddUp also checks refunds, which pay a negative number of units, and charges, which
// pay all of their cost.
func accountsAddUp(p *point) {
	p.requireLog()
	for c := range p.each(step) {
		next, cost, r := c.next, c.cost, c.r
		p.requireSum(step, cost, r)
		left := r.Available + r.Refilled
		p.require(r.Allowed == (left >= cost), "%d units are left before a step of cost %d, but Allowed is %v", left, cost, r.Allowed)
		p.require(r.Allowed && r.Paid == cost || !r.Allowed && r.Paid == 0, "Paid is %d of cost %d, but Allowed is %v", r.Paid, cost, r.Allowed)
		p.requirePeek(cost, r)
		if r.Allowed {
			after := p.peek(next, p.now, 1)
			p.require(after.Remaining == r.Remaining, "Remaining of a step is %d, but of a peek after it %d", r.Remaining, after.Remaining)
			undone, r := p.call(refund, next, p.now, cost)
			p.require(r.Paid == -cost, "Paid of a refund of %d units after a step that took them is %d", cost, r.Paid)
			p.requireAlike(p.state, undone, max(p.now, p.past.latest), sameDecision, "without a step, or with it and its refund")
		}
		p.requireRefund(cost)
		p.requireCharge(cost, next, r)
	}
	p.requireRefund(math.MaxInt64)
}

func (p *point) requireSum(op op, cost int64, r algo.Result) {
	p.require(r.Available+r.Refilled-r.Paid == r.Remaining, "%v: Available %d + Refilled %d - Paid %d is not Remaining %d", op, r.Available, r.Refilled, r.Paid, r.Remaining)
	p.require(r.Cost == cost, "%v: the cost is %d, but Cost is %d", op, cost, r.Cost)
	p.require(r.Limit >= 1 && r.Available+r.Refilled <= r.Limit, "%v: Available + Refilled is %d, but Limit is %d", op, r.Available+r.Refilled, r.Limit)
	p.require(r.Refilled >= 0, "%v: Refilled is %d", op, r.Refilled)
	p.require(!r.Fresh || r.Available == 0 && r.Refilled == r.Limit, "%v: Fresh is set, but Available is %d and Refilled is %d of %d", op, r.Available, r.Refilled, r.Limit)
	p.require(r.Fresh || len(p.state) > 0, "%v: Fresh is not set for a new key", op)
	p.require(r.Part == 0 || p.subject.Composed && r.Part > 0, "%v: Part is %d", op, r.Part)
	p.require(op == step || r.Allowed && r.RetryAfter == 0, "%v: Allowed is %v and RetryAfter is %v", op, r.Allowed, r.RetryAfter)
}

// requireLog compares the units left with the log of events, if clocks agreed and the limit
// did not change.
func (p *point) requireLog() {
	last := p.past
	if last.before == nil || p.now < last.latest || !last.isSteady() || last.event.limit != p.limit {
		return
	}
	p.clearProbes()
	r := p.peek(p.state, p.now, 1)
	if !r.Fresh && !p.subject.Composed {
		p.require(r.Available == last.event.r.Remaining, "Remaining of the last event is %d, but Available is %d", last.event.r.Remaining, r.Available)
	}
	if p.subject.Oracle == nil {
		return
	}
	var log Log
	for _, e := range last.history() {
		switch {
		case e.op == step || e.op == charge && !p.subject.Windowed:
			log.Add(instant(e.at), e.r.Paid)
		case e.op == refund && !p.subject.Windowed:
			log.Add(instant(e.at), -e.cost)
		default: // the oracles of windows do not know refunds and debts
			return
		}
	}
	want := p.subject.Oracle(p.limit)(log, instant(p.now))
	p.require(r.Available+r.Refilled == want, "Available %d + Refilled %d units are left, but by the oracle %d are", r.Available, r.Refilled, want)
}

// requirePeek requires that Peek returns the result of the step, unpaid.
func (p *point) requirePeek(cost int64, stepped algo.Result) {
	r := p.peek(p.state, p.now, cost)
	p.require(r.Paid == 0 && r.Remaining == r.Available+r.Refilled, "a peek pays %d and leaves %d of %d+%d", r.Paid, r.Remaining, r.Available, r.Refilled)
	if stepped.Allowed {
		r.Paid, r.Remaining, r.NextRefill, r.ResetAfter = stepped.Paid, stepped.Remaining, stepped.NextRefill, stepped.ResetAfter
	}
	if r != stepped {
		p.fail("a peek returns\n    %+v, but the step\n    %+v", r, stepped)
	}
}

func (p *point) requireRefund(cost int64) {
	_, r := p.call(refund, p.state, p.now, cost)
	p.requireSum(refund, cost, r)
	p.require(r.Paid <= 0 && r.Paid >= -cost, "Paid of a refund of %d is %d", cost, r.Paid)
	p.require(r.Remaining <= r.Limit, "Remaining after a refund is %d, above the capacity of %d", r.Remaining, r.Limit)
}

// requireCharge compares a charge with a step of the same cost.
func (p *point) requireCharge(cost int64, stepped []byte, step algo.Result) {
	next, r := p.call(charge, p.state, p.now, cost)
	p.requireSum(charge, cost, r)
	if p.subject.Windowed && r.Limit > 1<<45/p.limit.Period.Microseconds() {
		return // trailing units count in part, but the sum of all units is limited
	}
	if step.Allowed {
		p.require(r.Paid == step.Paid && r.Remaining == step.Remaining, "a charge pays %d and leaves %d, but a step pays %d and leaves %d", r.Paid, r.Remaining, step.Paid, step.Remaining)
		p.requireAlike(stepped, next, max(p.now, p.past.latest), sameResult, "after a step that is allowed, or a charge")
		return
	}
	p.require(r.Paid >= 0 && r.Paid <= cost, "Paid of a charge of %d is %d", cost, r.Paid)
	if used := r.Limit - r.Available - r.Refilled; isExact(r) && cost <= 2*r.Limit-used {
		p.require(r.Paid == cost, "Paid of a charge of %d is only %d", cost, r.Paid)
	}
	again, r := p.call(charge, next, p.now, math.MaxInt64)
	p.require(p.now < p.past.latest || r.Remaining >= r.Limit-algo.MaxLevel, "a charge leaves %d units of %d, so more than 2^52 are used", r.Remaining, r.Limit)
	p.call(charge, again, algo.MaxInstant, math.MaxInt64)
}

// costIsPositive calls every operation.
func costIsPositive(p *point) {
	for _, cost := range []int64{0, -1, math.MinInt64} {
		p.requireError(p.state, cost, algo.ErrCost, fmt.Sprintf("cost %d", cost))
	}
}
