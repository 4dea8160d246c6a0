package algotest

import (
	"errors"
	"math"
	"testing"

	"github.com/sluice-go/sluice/algo"
)

// Accounts is law 13: Available + Refilled - Paid == Remaining; Paid is 0 or Cost;
// Remaining >= Cost before paying iff allowed. It holds for refunds and charges
// too: a refund takes a negative number of units, a charge all that it is asked
// for.
func Accounts(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 13, name: "Accounts",
		sentence: "Available + Refilled - Paid == Remaining; Paid is 0 or Cost; Remaining >= Cost before paying iff allowed",
		judge:    accounts,
		verbs:    []op{refund, charge}, skewed: true,
	}.hold(t, s)
}

func accounts(p *point) {
	p.statement()
	for _, cost := range p.costs() {
		p.forget()
		next, r := p.step(p.state, p.now, cost)
		p.addsUp(step, cost, r)
		there := r.Available + r.Refilled
		p.require(r.Allowed == (there >= cost), "%d units are there and cost %d is asked for; Allowed is %v", there, cost, r.Allowed)
		p.require(r.Allowed && r.Paid == cost || !r.Allowed && r.Paid == 0, "Paid is %d of cost %d, Allowed %v", r.Paid, cost, r.Allowed)
		p.peeks(cost, r)
		if r.Allowed {
			left := p.peek(next, p.now, 1)
			p.require(left.Remaining == r.Remaining, "a step leaves %d units, and right after it %d are there", r.Remaining, left.Remaining)
			p.takesBack(next, cost)
		}
		p.refunds(cost)
		p.charges(cost, next, r)
	}
	p.refunds(math.MaxInt64)
	p.refusesNegative()
	p.defaultCost()
}

func (p *point) addsUp(op op, cost int64, r algo.Result) {
	p.require(r.Available+r.Refilled-r.Paid == r.Remaining, "%v: Available %d + Refilled %d - Paid %d is not Remaining %d", op, r.Available, r.Refilled, r.Paid, r.Remaining)
	p.require(r.Cost == cost, "%v: Cost is %d where %d was asked for", op, r.Cost, cost)
	p.require(r.Limit >= 1 && r.Available+r.Refilled <= r.Limit, "%v: %d units are there of a capacity of %d", op, r.Available+r.Refilled, r.Limit)
	p.require(r.Refilled >= 0, "%v: Refilled is %d", op, r.Refilled)
	p.require(!r.Fresh || r.Available == 0 && r.Refilled == r.Limit, "%v: Fresh, with Available %d and Refilled %d of %d", op, r.Available, r.Refilled, r.Limit)
	p.require(r.Fresh || len(p.state) > 0, "%v: the key has never been seen and is not Fresh", op)
	p.require(r.Part == 0 || p.subject.Composed && r.Part > 0, "%v: Part is %d", op, r.Part)
	p.require(op == step || r.Allowed && r.RetryAfter == 0, "%v: Allowed is %v, with RetryAfter %v", op, r.Allowed, r.RetryAfter)
}

// statement compares what is there with the log of events, where clocks agreed
// and the limit stayed what it is.
func (p *point) statement() {
	last := p.past
	if last.before == nil || p.now < last.latest || !last.steady() || last.event.limit != p.limit {
		return
	}
	p.forget()
	r := p.peek(p.state, p.now, 1)
	if !r.Fresh && !p.subject.Composed {
		p.require(r.Available == last.event.r.Remaining, "the last event left %d units, and Available is %d", last.event.r.Remaining, r.Available)
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
		default: // a window takes back and forgives in ways of its own
			return
		}
	}
	want := p.subject.Oracle(p.limit)(log, instant(p.now))
	p.require(r.Available+r.Refilled == want, "Available %d + Refilled %d are there; by the log of events %d are", r.Available, r.Refilled, want)
}

// peeks requires that Peek answers what the step did, unpaid.
func (p *point) peeks(cost int64, stepped algo.Result) {
	r := p.peek(p.state, p.now, cost)
	p.require(r.Paid == 0 && r.Remaining == r.Available+r.Refilled, "a peek pays %d and leaves %d of %d+%d", r.Paid, r.Remaining, r.Available, r.Refilled)
	if stepped.Allowed {
		r.Paid, r.Remaining, r.NextRefill, r.ResetAfter = stepped.Paid, stepped.Remaining, stepped.NextRefill, stepped.ResetAfter
	}
	if r != stepped {
		p.fail("a peek answers\n    %+v, and the step\n    %+v", r, stepped)
	}
}

// takesBack requires that a refund right after a step of the same cost undoes it.
func (p *point) takesBack(next []byte, cost int64) {
	undone, r := p.refund(next, p.now, cost)
	p.require(r.Paid == -cost, "the refund of %d units right after they were taken has Paid %d", cost, r.Paid)
	p.alike(p.state, undone, max(p.now, p.past.latest), decidesAlike, "without a step, or with it and its refund")
}

func (p *point) refunds(cost int64) {
	_, r := p.refund(p.state, p.now, cost)
	p.addsUp(refund, cost, r)
	p.require(r.Paid <= 0 && r.Paid >= -cost, "a refund of %d has Paid %d", cost, r.Paid)
	p.require(r.Remaining <= r.Limit, "a refund leaves %d units, above the capacity of %d", r.Remaining, r.Limit)
}

func (p *point) charges(cost int64, stepped []byte, step algo.Result) {
	next, r := p.charge(p.state, p.now, cost)
	p.addsUp(charge, cost, r)
	if p.subject.Windowed && r.Limit > algo.MaxCount/4 {
		return // units that trail count for less than was taken, and no more than 2^62 are
	}
	if step.Allowed {
		p.require(r.Paid == step.Paid && r.Remaining == step.Remaining, "a charge pays %d and leaves %d where a step pays %d and leaves %d", r.Paid, r.Remaining, step.Paid, step.Remaining)
		p.alike(stepped, next, max(p.now, p.past.latest), identical, "after a step that is allowed, or a charge")
		return
	}
	p.require(r.Paid >= 0 && r.Paid <= cost, "a charge of %d has Paid %d", cost, r.Paid)
	if used := r.Limit - r.Available - r.Refilled; exact(r) && cost <= algo.MaxCount-used {
		p.require(r.Paid == cost, "a charge of %d takes only %d", cost, r.Paid)
	}
	again, r := p.charge(next, p.now, math.MaxInt64)
	p.require(p.now < p.past.latest || r.Remaining >= r.Limit-algo.MaxCount, "a charge leaves %d units of %d: more than 2^62 are used", r.Remaining, r.Limit)
	p.charge(again, algo.MaxInstant, math.MaxInt64)
}

func (p *point) refusesNegative() {
	for _, op := range []op{step, peek, refund, charge} {
		for _, cost := range []int64{-1, math.MinInt64} {
			next, _, err := apply(p.policy, op, []byte("dst"), p.state, p.now, cost)
			p.require(errors.Is(err, algo.ErrCost), "%v of cost %d is to be refused with ErrCost, and says %v", op, cost, err)
			p.require(string(next) == "dst", "%v of cost %d appends to dst along with its error", op, cost)
		}
	}
}

// defaultCost requires that a cost of 0 is the options' own, and pays.
func (p *point) defaultCost() {
	p.forget()
	next, r := p.step(p.state, p.now, 0)
	p.require(r.Cost >= 1, "cost 0 stands for the cost in the options, and is taken for %d", r.Cost)
	same, want := p.step(p.state, p.now, r.Cost)
	p.require(r == want && string(next) == string(same), "cost 0 and cost %d answer\n    %+v, and\n    %+v", r.Cost, r, want)
	for _, op := range []op{peek, refund, charge} {
		next, x := p.call(op, p.state, p.now, 0)
		same, want := p.call(op, p.state, p.now, r.Cost)
		if !(x == want && string(next) == string(same)) {
			p.fail("a %v of cost 0 and one of cost %d, for which a step takes that, answer\n    %+v, and\n    %+v", op, r.Cost, x, want)
		}
	}
}
