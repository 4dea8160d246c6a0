package algotest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// boundHolds checks all intervals that end with the last event. An interval of x ns is x
// consecutive instants.
func boundHolds(p *point) {
	if p.now != p.past.latest {
		return
	}
	p.require(p.policy.Bound(0) >= 0, "Bound of an empty interval is %d", p.policy.Bound(0))
	sum := new(big.Int)
	for n := p.past; n.before != nil; n = n.before {
		sum.Add(sum, big.NewInt(p.subject.admitted(n.event.op, n.event.cost, n.event.r)))
		if n.before.before == nil || n.before.event.at < n.event.at { // an interval includes all events of an instant
			p.requireBound(sum, n.event.at)
		}
	}
}

// requireBound compares the units admitted from an instant to the last event with the bounds
// of that interval and of longer ones.
func (p *point) requireBound(sum *big.Int, from int64) {
	interval := time.Duration(p.past.event.at - from + 1)
	for _, x := range []time.Duration{interval, interval + p.limit.Period, 1000 * interval, math.MaxInt64} {
		bound := p.policy.Bound(max(x, interval)) // math.MaxInt64 promises nothing
		p.require(bound == math.MaxInt64 || sum.Cmp(big.NewInt(bound)) <= 0, "%v units are admitted from %s to %s, but Bound(%v) is %d",
			sum, offset(from), offset(p.past.event.at), max(x, interval), bound)
	}
}

// admitted returns the units that an event adds to the sum that Bound limits. See
// algo.Policy.Bound for why a refund sometimes counts as its cost.
func (s *Subject) admitted(op op, cost int64, r algo.Result) int64 {
	switch {
	case op != refund:
		return cost
	case s.Windowed || s.Composed:
		return -cost
	}
	return r.Paid
}

func (s *search) greedyCallers() *violation {
	if v := s.spendAll(); v != nil {
		return v
	}
	return s.adversaries()
}

// spendAll searches the history of a caller that takes all units at the first instant, and
// again after every refill.
func (s *search) spendAll() *violation {
	for i := 0; i < 72; i += 7 {
		limit := smallLimit(i)
		policy := s.policy(limit)
		if policy == nil {
			continue
		}
		n, now := root(), epoch.UnixNano()
		for range 100 {
			r := s.peek(n, policy, now)
			n = s.next(n, policy, event{limit: limit, op: step, at: now, cost: max(1, r.Available+r.Refilled)})
			now = after(now, s.peek(n, policy, now).NextRefill)
			if v := s.check(n, limit, policy, n.latest); v != nil {
				return v
			}
		}
	}
	return nil
}

// adversaries computes, for each small limit and from each state reached within a period, the
// most units that any caller can get in 1, 2, 3 ... consecutive instants, by steps and by
// refunds of one unit before them.
func (s *search) adversaries() *violation {
	for i := 0; i < 72; i += s.effort.limits {
		limit := smallLimit(i)
		policy := s.policy(limit)
		if policy == nil {
			continue
		}
		a := adversary{subject: &s.subject, policy: policy, limit: limit, known: map[string][]int64{}, calls: s.effort.bound}
		a.end = epoch.UnixNano() + 3*int64(limit.Period) + 1
		for start := epoch.UnixNano(); start < epoch.UnixNano()+int64(limit.Period); start++ {
			v := s.catch(root(), limit, start, func() *violation { return s.searchBound(&a, root(), start) })
			if v != nil {
				return v
			}
		}
	}
	return nil
}

// An adversary computes the most units that a caller can get. When its calls are used up, it
// only waits, so its results can be too low but never too high.
type adversary struct {
	subject *Subject
	policy  algo.Policy
	limit   algo.Limit
	end     int64
	known   map[string][]int64
	calls   int
}

// most returns the most units that can be had from a state in 0, 1, 2 ... instants from now.
func (a *adversary) most(state []byte, now int64) []int64 {
	if now == a.end {
		return []int64{0}
	}
	var array [128]byte
	key := append(binary.BigEndian.AppendUint64(array[:0], uint64(now)), state...)
	if known, ok := a.known[string(key)]; ok {
		return known
	}
	best := append([]int64{0}, a.most(state, now+1)...) // if the caller waits
	if next, units := a.refund(state, now+1); units != 0 {
		for i, more := range a.most(next, now+1) {
			if i > 0 {
				best[i+1] = max(best[i+1], more+units)
			}
		}
	}
	a.steps(state, now, func(cost int64, next []byte) {
		for i, more := range a.most(next, now) {
			if i > 0 {
				best[i] = max(best[i], cost+min(more, math.MaxInt64-cost))
			}
		}
	})
	a.known[string(key)] = best
	return best
}

// steps calls visit with each allowed step that changes the state.
func (a *adversary) steps(state []byte, now int64, visit func(cost int64, next []byte)) {
	if a.calls <= 0 {
		return
	}
	a.calls--
	r, err := a.policy.Peek(state, instant(now), 1)
	if err != nil {
		return
	}
	for _, cost := range adversaryCosts(r.Available + r.Refilled) {
		if a.calls--; a.calls < 0 {
			return
		}
		next, r, err := a.policy.Step(nil, state, instant(now), cost)
		if err == nil && r.Allowed && !bytes.Equal(next, state) {
			visit(cost, next)
		}
	}
}

// refund gives one unit back. It returns what that adds to the units admitted. Refunds come
// first at an instant, but never first in an interval: otherwise they would give back units
// that were taken before the interval.
func (a *adversary) refund(state []byte, now int64) (next []byte, units int64) {
	if a.calls--; a.calls < 0 || now == a.end {
		return nil, 0
	}
	next, r, err := a.policy.Refund(nil, state, instant(now), 1)
	if err != nil || bytes.Equal(next, state) {
		return nil, 0
	}
	return next, a.subject.admitted(refund, 1, r)
}

// adversaryCosts returns all costs if few units are left. Otherwise it returns costs that leave
// few units, because a large burst has too many states.
func adversaryCosts(left int64) []int64 {
	if left > 2*smallCapacity {
		return []int64{left, left - 1, left / 2}
	}
	all := make([]int64, max(left+1, 1))
	for i := range all {
		all[i] = int64(i) + 1
	}
	return all
}

// searchBound tries all states after up to two steps within a period, and compares what the
// adversary gets from there with Bound.
func (s *search) searchBound(a *adversary, n *node, now int64) *violation {
	if n.depth > 0 || now == epoch.UnixNano() {
		for x, units := range a.most(n.state, now) {
			if bound := a.policy.Bound(time.Duration(x)); x > 0 && units > bound {
				n = s.bestHistory(a, n, now, x, units)
				text := fmt.Sprintf("%d units are admitted in %d consecutive instants from %s on, but Bound is %d", units, x, offset(now), bound)
				return &violation{n, a.limit, n.latest, failure{text: text}}
			}
		}
	}
	var v *violation
	if n.depth < 2 {
		a.steps(n.state, now, func(cost int64, next []byte) {
			e := event{limit: a.limit, op: step, at: now, cost: cost}
			for at := now; v == nil && at < now+int64(a.limit.Period); at++ {
				v = s.searchBound(a, n.extend(e, next), at)
			}
		})
	}
	return v
}

// bestHistory returns n, extended by a history that gets units in x instants from now.
func (s *search) bestHistory(a *adversary, n *node, now int64, x int, units int64) *node {
	a.calls = math.MaxInt // most results are known
	state, t := n.state, now
	for x > 0 && units > 0 {
		if later := a.most(state, t+1); x > 1 && later[x-1] == units {
			t, x = t+1, x-1
			continue
		}
		if next, back := a.refund(state, t+1); x > 1 && back != 0 && a.most(next, t+1)[x-1]+back == units {
			t, x = t+1, x-1
			n = s.next(n, a.policy, event{limit: a.limit, op: refund, at: t, cost: 1})
			state, units = next, units-back
			continue
		}
		found := false
		a.steps(state, t, func(cost int64, next []byte) {
			if !found && a.most(next, t)[x]+cost == units {
				n = s.next(n, a.policy, event{limit: a.limit, op: step, at: t, cost: cost})
				state, units, found = next, units-cost, true
			}
		})
		if !found {
			break
		}
	}
	return n
}
