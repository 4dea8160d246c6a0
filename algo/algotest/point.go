package algotest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/sluice-go/sluice/algo"
)

// A point is where a law is judged: a state that a history has led to, and a
// reading of the clock.
type point struct {
	hunt    *hunt
	subject *Subject
	limit   algo.Limit
	policy  algo.Policy
	state   []byte
	now     int64
	past    *node

	probes []event // what the law has asked so far
}

// A node is the state after an event that changed it, and how it came about.
// The root, a key never seen, has no event.
type node struct {
	state  []byte
	before *node
	event  event
	latest int64 // the latest reading of any event that changed the state; -1: none
	time   int64 // the same since the key was last full, for to be full is to have no state; -1: none
	depth  int
}

func root() *node { return &node{latest: -1, time: -1} }

// then is the node that e leads to.
func (n *node) then(e event, state []byte) *node {
	return &node{state: state, before: n, event: e, latest: max(n.latest, e.at), time: max(n.time, e.at), depth: n.depth + 1}
}

// history is the events from the root to n.
func (n *node) history() []event {
	var h []event
	for ; n.before != nil; n = n.before {
		h = append(h, n.event)
	}
	slices.Reverse(h)
	return h
}

// steady reports whether no reading before n stepped back and the limit never changed.
func (n *node) steady() bool {
	for ; n.before != nil && n.before.before != nil; n = n.before {
		if n.event.at < n.before.event.at || n.event.limit != n.before.event.limit {
			return false
		}
	}
	return true
}

// refunded reports whether units were given back before n: a key that is full
// again has no state, and so no time.
func (n *node) refunded() bool {
	for ; n.before != nil; n = n.before {
		if n.event.op == refund {
			return true
		}
	}
	return false
}

// A fault is how a law fails at a point, and what was asked to find it. Judges
// panic with it.
type fault struct {
	text   string
	probes []event
}

func (p *point) require(ok bool, format string, args ...any) {
	if !ok {
		p.fail(format, args...)
	}
}

// fail is require where the arguments cost more than the question.
func (p *point) fail(format string, args ...any) {
	panic(&fault{text: fmt.Sprintf(format, args...)})
}

// forget starts a new line of questions.
func (p *point) forget() { p.probes = p.probes[:0] }

// The four verbs under the point's own policy. A valid state must be taken.

func (p *point) peek(state []byte, now, cost int64) algo.Result {
	p.hunt.calls++
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
	next, r, err := p.hunt.counted(p.policy, op, p.hunt.scratch.room(0), state, now, cost)
	next = p.hunt.scratch.keep(next)
	p.probes = append(p.probes, event{p.limit, op, now, cost, r, err})
	if err != nil {
		p.fail("%v refuses the policy's own state %x: %v", op, state, err)
	}
	return next, r
}

// apply calls one verb of the policy. A peek appends the state as it was.
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

// small is the capacity up to which every cost is tried.
const small = 8

// costs are the costs worth asking for at the point: all of them where there
// are few, else those at the edges.
func (p *point) costs() []int64 {
	r, err := p.policy.Peek(p.state, instant(p.now), 1)
	if err != nil {
		return []int64{1}
	}
	return costs(r.Limit, r.Remaining)
}

func costs(capacity, left int64) []int64 {
	if capacity <= small {
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

// alike requires that from t on the states a and b answer alike, whatever is
// asked: that they are the same bytes, or that no question tells them apart.
func (p *point) alike(a, b []byte, t int64, same func(x, y algo.Result) bool, what string) {
	p.alikeTo(2, a, b, t, same, what)
}

func (p *point) alikeTo(depth int, a, b []byte, t int64, same func(x, y algo.Result) bool, what string) {
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
				p.fail("%s: at %s cost %d is answered\n    %+v, or else\n    %+v", what, offset(at), cost, x, y)
			}
			if x.Allowed && depth > 0 {
				p.alikeTo(depth-1, nextA, nextB, at, same, what)
			}
			p.probes = p.probes[:mark]
		}
	}
}

// identical compares results in every field.
func identical(x, y algo.Result) bool { return x == y }

// decidesAlike compares what results promise for now and later, and not how the
// account stood before.
func decidesAlike(x, y algo.Result) bool {
	return x.Allowed == y.Allowed && x.Limit == y.Limit && x.Remaining == y.Remaining && x.Paid == y.Paid &&
		x.RetryAfter == y.RetryAfter && x.NextRefill == y.NextRefill && x.ResetAfter == y.ResetAfter
}
