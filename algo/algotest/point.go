package algotest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/sluice-go/sluice/algo"
)

// A point is a state, reached by a history, and a time. A check tests a law at one point.
type point struct {
	search  *search
	subject *Subject
	limit   algo.Limit
	policy  algo.Policy
	state   []byte
	now     int64
	past    *node

	probes []event // the calls of the check, for the report
}

// A node is a state and the event that led to it. The root is a new key.
type node struct {
	state  []byte
	before *node // nil in the root
	event  event
	latest int64 // latest time of an event that changed the state; -1: none
	time   int64 // the same since the key was last full, because a full key has no state; -1: none
	depth  int
}

func root() *node { return &node{latest: -1, time: -1} }

// extend returns the node that e leads to.
func (n *node) extend(e event, state []byte) *node {
	return &node{state: state, before: n, event: e, latest: max(n.latest, e.at), time: max(n.time, e.at), depth: n.depth + 1}
}

// history returns the events from the root to n.
func (n *node) history() []event {
	var h []event
	for ; n.before != nil; n = n.before {
		h = append(h, n.event)
	}
	slices.Reverse(h)
	return h
}

// isSteady reports whether the clock never stepped back and the limit never changed.
func (n *node) isSteady() bool {
	for ; n.before != nil && n.before.before != nil; n = n.before {
		if n.event.at < n.before.event.at || n.event.limit != n.before.event.limit {
			return false
		}
	}
	return true
}

// hasRefund reports whether the history has a refund. A refund can fill a key, which then has
// no state and so no time.
func (n *node) hasRefund() bool {
	for ; n.before != nil; n = n.before {
		if n.event.op == refund {
			return true
		}
	}
	return false
}

// A failure describes how a law is broken at a point. Checks panic with it.
type failure struct {
	text   string
	probes []event
}

func (p *point) require(ok bool, format string, args ...any) {
	if !ok {
		p.fail(format, args...)
	}
}

// fail is for arguments that are slow to evaluate; otherwise use require.
func (p *point) fail(format string, args ...any) {
	panic(&failure{text: fmt.Sprintf(format, args...)})
}

func (p *point) clearProbes() { p.probes = p.probes[:0] }

// isNew reports whether the state has not been checked at t under this limit.
func (p *point) isNew(state []byte, t int64) bool { return p.search.checked.add(state, t) }

func (p *point) peek(state []byte, now, cost int64) algo.Result {
	p.search.calls++
	r, err := p.policy.Peek(state, instant(now), cost)
	p.probes = append(p.probes, event{p.limit, peek, now, cost, r, err})
	if err != nil {
		p.fail("Peek refuses the policy's own state %x: %v", state, err)
	}
	return r
}

func (p *point) step(state []byte, now, cost int64) ([]byte, algo.Result) {
	return p.call(step, state, now, cost)
}

func (p *point) refund(state []byte, now, cost int64) ([]byte, algo.Result) {
	return p.call(refund, state, now, cost)
}

func (p *point) charge(state []byte, now, cost int64) ([]byte, algo.Result) {
	return p.call(charge, state, now, cost)
}

func (p *point) call(op op, state []byte, now, cost int64) ([]byte, algo.Result) {
	next, r, err := p.search.apply(p.policy, op, p.search.buffers.dst(0), state, now, cost)
	next = p.search.buffers.retain(next)
	p.probes = append(p.probes, event{p.limit, op, now, cost, r, err})
	if err != nil {
		p.fail("%v refuses the policy's own state %x: %v", op, state, err)
	}
	return next, r
}

// apply calls one operation of the policy. A peek appends state to dst.
func apply(policy algo.Policy, op op, dst, state []byte, now, cost int64) ([]byte, algo.Result, error) {
	switch t := instant(now); op {
	case step:
		return policy.Step(dst, state, t, cost)
	case refund:
		return policy.Refund(dst, state, t, cost)
	case charge:
		return policy.Charge(dst, state, t, cost)
	default:
		r, err := policy.Peek(state, t, cost)
		if err == nil {
			dst = append(dst, state...)
		}
		return dst, r, err
	}
}

// smallCapacity is the capacity up to which every cost is tried.
const smallCapacity = 8

// costs returns the costs to try at the point.
func (p *point) costs() []int64 {
	r, err := p.policy.Peek(p.state, instant(p.now), 1)
	if err != nil {
		return []int64{1}
	}
	return costs(r.Limit, r.Remaining)
}

// costs returns all costs for a small capacity, or else those at which decisions change.
func costs(capacity, left int64) []int64 {
	if capacity <= smallCapacity {
		all := make([]int64, capacity+1)
		for i := range all {
			all[i] = int64(i) + 1
		}
		return all
	}
	some := []int64{1, 2, left / 2, left - 1, left, left + 1, capacity / 2, capacity, capacity + 1}
	some = slices.DeleteFunc(some, func(c int64) bool { return c < 1 })
	slices.Sort(some)
	return slices.Compact(some)
}

// requireAlike requires that the states a and b decide alike from t on: that they are the same
// bytes, or that no steps give results that differ by same.
func (p *point) requireAlike(a, b []byte, t int64, same func(x, y algo.Result) bool, what string) {
	p.compareSteps(2, a, b, t, same, what)
}

func (p *point) compareSteps(depth int, a, b []byte, t int64, same func(x, y algo.Result) bool, what string) {
	if bytes.Equal(a, b) {
		return
	}
	first := p.peek(a, t, 1)
	for _, at := range []int64{t, t + 1, after(t, first.NextRefill), after(t, first.ResetAfter/2), after(t, first.ResetAfter)} {
		if at > algo.MaxInstant {
			continue
		}
		for _, cost := range costs(first.Limit, p.peek(a, at, 1).Remaining) {
			mark := len(p.probes)
			nextA, x := p.step(a, at, cost)
			nextB, y := p.step(b, at, cost)
			if !same(x, y) {
				p.fail("%s: a step of cost %d at %s returns\n    %+v, or\n    %+v", what, cost, offset(at), x, y)
			}
			if x.Allowed && depth > 0 {
				p.compareSteps(depth-1, nextA, nextB, at, same, what)
			}
			p.probes = p.probes[:mark]
		}
	}
}

func sameResult(x, y algo.Result) bool { return x == y }

// sameDecision ignores the fields about the state before the decision.
func sameDecision(x, y algo.Result) bool {
	return x.Allowed == y.Allowed && x.Limit == y.Limit && x.Remaining == y.Remaining && x.Paid == y.Paid &&
		x.RetryAfter == y.RetryAfter && x.NextRefill == y.NextRefill && x.ResetAfter == y.ResetAfter
}
