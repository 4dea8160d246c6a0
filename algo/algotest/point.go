package algotest

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// A point is a state, reached by a history, and a time. A check tests a law at one point.
type point struct {
	*search
	limit  algo.Limit
	policy algo.Policy
	state  []byte
	now    int64
	past   *node

	probes []event // the calls of the check, for the report
}

// A failure describes how a law is broken at a point. Checks panic with it.
type failure string

func (p *point) require(ok bool, format string, args ...any) {
	if !ok {
		p.fail(format, args...)
	}
}

// fail is for arguments that are slow to evaluate; otherwise use require.
func (p *point) fail(format string, args ...any) {
	panic(failure(fmt.Sprintf(format, args...)))
}

func (p *point) clearProbes() { p.probes = p.probes[:0] }

// isNew reports whether the state has not been checked at t under this limit.
func (p *point) isNew(state []byte, t int64) bool { return p.checked.add(state, t) }

func (p *point) peek(state []byte, now, cost int64) algo.Result {
	p.calls++
	r, err := p.policy.Peek(state, instant(now), cost)
	p.record(peek, state, now, cost, r, err)
	return r
}

func (p *point) call(op op, state []byte, now, cost int64) ([]byte, algo.Result) {
	next, r, err := p.tryCall(op, nil, state, instant(now), cost)
	p.record(op, state, now, cost, r, err)
	return next, r
}

// A made call is a call of the policy and what it returned.
type made struct {
	op   op
	cost int64
	next []byte
	r    algo.Result
}

// each makes each operation at the point with each cost.
func (p *point) each(ops ...op) iter.Seq[made] {
	return func(yield func(made) bool) {
		for _, cost := range p.costs() {
			for _, op := range ops {
				p.clearProbes()
				next, r := p.call(op, p.state, p.now, cost)
				if !yield(made{op, cost, next, r}) {
					return
				}
			}
		}
	}
}

func (p *point) record(op op, state []byte, now, cost int64, r algo.Result, err error) {
	p.probes = append(p.probes, event{limit: p.limit, op: op, at: now, cost: cost, r: r, err: err})
	if err != nil {
		p.fail("%v refuses the policy's own state %x: %v", op, state, err)
	}
}

// tryCall is call for any time, and with the error.
func (p *point) tryCall(op op, dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	p.calls++
	return op.Apply(p.policy, dst, state, now, cost)
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

// requireAlike requires that the states a and b decide alike from t on: they are the same bytes, or steps give results
// that are the same by same.
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
			nextA, x := p.call(step, a, at, cost)
			nextB, y := p.call(step, b, at, cost)
			if !same(x, y) {
				p.fail("%s: two steps of cost %d at %s must return the same, but return\n    %+v, and\n    %+v", what, cost, offset(at), x, y)
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
	x.Available, x.Refilled, x.Fresh, x.Skew, x.Part = y.Available, y.Refilled, y.Fresh, y.Skew, y.Part
	return x == y
}
