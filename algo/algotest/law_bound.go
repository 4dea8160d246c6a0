package algotest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/worstcase"
)

// boundHolds checks all intervals that end with the last event. The instants are
// rounded down, so two of them can be up to 999ns closer than they differ.
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

// requireBound compares the units admitted from an instant to the last event with the bounds of that interval
// and of longer ones.
func (p *point) requireBound(sum *big.Int, from int64) {
	interval := shortest(p.past.event.at - from)
	for _, x := range []time.Duration{interval, interval + p.limit.Period, 1000 * interval, algo.MaxPeriod} {
		bound := p.policy.Bound(max(x, interval)) // math.MaxInt64 promises nothing
		p.require(bound == math.MaxInt64 || sum.Cmp(big.NewInt(bound)) <= 0, "%v units are admitted from %s to %s, but Bound(%v) is %d",
			sum, offset(from), offset(p.past.event.at), max(x, interval), bound)
	}
}

// shortest returns the shortest half-open interval with two instants that differ by that many microseconds.
func shortest(us int64) time.Duration {
	if us == 0 {
		return 1
	}
	return micros(us-1) + 2
}

// admitted returns the units that an event adds to the sum that Bound limits; see algo.Policy.Bound for refunds.
func (s *Subject) admitted(op op, cost int64, r algo.Result) int64 {
	switch {
	case op != refund:
		return cost
	case s.Windowed || s.Composed:
		return -cost
	}
	return r.Paid
}

// worstCases checks the calls that get the most units in one period and in longer intervals.
func (s *search) worstCases() *violation {
	for limit, policy := range s.small(max(7, s.effort.limits)) {
		for _, interval := range []time.Duration{limit.Period, 30*limit.Period + time.Microsecond} {
			n := root()
			if v := s.catch(n, limit, epoch.UnixMicro(), func() *violation {
				for _, c := range worstcase.Search(policy, 1, interval, epoch) {
					n = s.next(n, policy, event{limit: limit, op: step, at: c.At, cost: c.Cost}, nil)
					if v := s.check(n, limit, policy, n.latest); v != nil {
						return v
					}
				}
				return nil
			}); v != nil {
				return v
			}
		}
	}
	return nil
}

// adversaries computes the most units that any caller can get in 1, 2, 3 ... consecutive instants, by steps and by
// refunds of one unit before them. It does so for each small limit, from each state reached within a period.
func (s *search) adversaries() *violation {
	for limit, policy := range s.small(s.effort.limits) {
		a := adversary{search: s, policy: policy, limit: limit, known: map[string][]int64{}, budget: s.effort.bound}
		start := epoch.UnixMicro()
		a.end = start + 3*limit.Period.Microseconds() + s.tick()
		for now := start; now < start+limit.Period.Microseconds(); now += s.tick() {
			if v := s.catch(root(), limit, now, func() *violation { return a.searchFrom(root(), now) }); v != nil {
				return v
			}
		}
	}
	return nil
}

// An adversary computes the most units that a caller can get. When its budget of calls is used up,
// it only waits, so its results can be too low but never too high.
type adversary struct {
	*search
	policy algo.Policy
	limit  algo.Limit
	end    int64
	known  map[string][]int64
	budget int
}

// A move is what a caller can do next: take units, wait for an instant, or wait and give one unit back. units is what it
// adds to the units admitted.
type move struct {
	op    op // peek to wait
	at    int64
	units int64
	state []byte
}

// most returns the most units that can be had from a state in 0, 1, 2 ... instants from now.
func (a *adversary) most(state []byte, now int64) []int64 {
	var array [128]byte
	key := append(binary.BigEndian.AppendUint64(array[:0], uint64(now)), state...)
	if known, ok := a.known[string(key)]; ok {
		return known
	}
	best := make([]int64, (a.end-now)/a.tick()+1)
	for _, m := range a.moves(state, now) {
		for x, more := range a.most(m.state, m.at) {
			if later := x + int((m.at-now)/a.tick()); x > 0 {
				best[later] = max(best[later], m.units+min(more, math.MaxInt64-max(0, m.units)))
			}
		}
	}
	a.known[string(key)] = best
	return best
}

// moves returns the moves from a state. A refund comes first at its instant, but never first in an
// interval: otherwise it would give back units that were taken before the interval.
func (a *adversary) moves(state []byte, now int64) []move {
	if now == a.end {
		return nil
	}
	moves := []move{{op: peek, at: now + a.tick(), state: state}}
	try := func(op op, at, cost int64) {
		if a.budget--; a.budget < 0 || at == a.end {
			return
		}
		next, r, err := op.Apply(a.policy, nil, state, instant(at), cost)
		if err == nil && r.Allowed && !bytes.Equal(next, state) {
			moves = append(moves, move{op, at, a.subject.admitted(op, cost, r), next})
		}
	}
	try(refund, now+a.tick(), 1)
	r, err := a.policy.Peek(state, instant(now), 1)
	if a.budget--; a.budget < 0 || err != nil {
		return moves
	}
	left := r.Available + r.Refilled
	for _, cost := range costs(left, left) {
		try(step, now, cost)
	}
	return moves
}

// searchFrom tries all states after up to two steps within a period, and compares what the
// adversary gets from there with Bound.
func (a *adversary) searchFrom(n *node, now int64) *violation {
	if n.depth > 0 || now == epoch.UnixMicro() {
		for x, units := range a.most(n.state, now) {
			if bound := a.policy.Bound(shortest(int64(x-1) * a.tick())); x > 0 && units > bound {
				n = a.best(n, now, x, units)
				text := fmt.Sprintf("%d units are admitted in %d consecutive instants from %s on, but Bound is %d", units, x, offset(now), bound)
				return &violation{history: n.history(), state: n.state, limit: a.limit, now: n.latest, text: text}
			}
		}
	}
	if n.depth == 2 {
		return nil
	}
	for _, m := range a.moves(n.state, now) {
		if m.op != step {
			continue
		}
		next := n.extend(event{limit: a.limit, op: step, at: now, cost: m.units}, m.state)
		for at := now; at < now+a.limit.Period.Microseconds(); at += a.tick() {
			if v := a.searchFrom(next, at); v != nil {
				return v
			}
		}
	}
	return nil
}

// best returns n, extended by a history that gets units in x instants from now.
func (a *adversary) best(n *node, now int64, x int, units int64) *node {
	a.budget = math.MaxInt // most results are known
	state := n.state
	for found := true; found && x > 0 && units > 0; {
		found = false
		for _, m := range a.moves(state, now) {
			left := x - int((m.at-now)/a.tick())
			if left < 1 || a.most(m.state, m.at)[left]+m.units != units {
				continue
			}
			if m.op != peek {
				n = a.next(n, a.policy, event{limit: a.limit, op: m.op, at: m.at, cost: max(m.units, 1)}, nil)
			}
			state, now, x, units, found = m.state, m.at, left, units-m.units, true
			break
		}
	}
	return n
}
