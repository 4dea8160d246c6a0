package algotest

import (
	"iter"
	"math/rand/v2"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// smallLimit returns the i-th of the 72 limits with counts up to 6 and periods up to 12ns.
func smallLimit(i int) algo.Limit { return algo.Per(int64(i%6)+1, time.Duration(i/6)+1) }

// smallLimits searches under small limits, from state to state.
func (s *search) smallLimits() *violation {
	for i := 0; i < 72; i += s.effort.limits {
		limit := smallLimit(i)
		policy := s.policy(limit)
		if policy == nil {
			continue
		}
		starts := []int64{epoch.UnixNano()}
		if i%3 == 0 {
			starts = append(starts, 0)
		}
		for _, start := range starts {
			if v := s.searchFrom(limit, policy, start); v != nil {
				return v
			}
		}
	}
	return nil
}

// searchFrom checks the states after at most effort.depth events, in the order of their
// depth. If a depth has too many states, it checks a sample.
func (s *search) searchFrom(limit algo.Limit, policy algo.Policy, start int64) *violation {
	effort := s.effort.forLimit(limit)
	s.checked = visited{}

	layer, reached := []*node{root()}, visited{}
	for depth := 0; ; depth++ {
		if v := s.checkLayer(layer, limit, policy, start, effort.checks); v != nil || depth == effort.depth {
			return v
		}
		var next []*node
		for _, n := range layer {
			for e := range s.events(n, limit, policy, start, effort.tries) {
				if to := s.nextUnvisited(n, policy, e, reached); to != n {
					next = append(next, to)
				}
			}
		}
		layer = sample(s.random, next, effort.layer)
	}
}

// checkLayer checks the states at all relevant times, in random order, with at most that
// many calls.
func (s *search) checkLayer(layer []*node, limit algo.Limit, policy algo.Policy, start int64, calls int) *violation {
	type check struct {
		n   *node
		now int64
	}
	var checks []check
	for _, n := range layer {
		from, to := s.checkTimes(n, limit, start)
		for now := from; now <= to; now++ {
			checks = append(checks, check{n, now})
		}
	}
	s.random.Shuffle(len(checks), func(i, j int) { checks[i], checks[j] = checks[j], checks[i] })
	for before := s.calls; len(checks) > 0 && s.calls-before < calls; checks = checks[1:] {
		if v := s.check(checks[0].n, limit, policy, checks[0].now); v != nil {
			return v
		}
	}
	return nil
}

// checkTimes returns the first and the last instant at which a state is checked.
func (s *search) checkTimes(n *node, limit algo.Limit, start int64) (from, to int64) {
	switch {
	case n.before == nil:
		return start, start + int64(limit.Period)
	case s.law.clockStepsBack:
		return start, n.latest + 2*int64(limit.Period) + 2
	}
	return n.latest, n.latest + 2*int64(limit.Period) + 2
}

// events returns up to n events: all that are possible, or a random choice of them. The first
// event of a key is within one period from start, and later ones within two.
func (s *search) events(after *node, limit algo.Limit, policy algo.Policy, start int64, n int) iter.Seq[event] {
	from, to := start, start+int64(limit.Period)-1
	if after.before != nil {
		to = start + 2*int64(limit.Period) + 2
		if !s.law.clockStepsBack {
			from = after.latest
		}
	}
	r, _ := policy.Peek(nil, instant(from), 1)
	costs, ops := costs(r.Limit, r.Limit), append([]op{step}, s.law.ops...)
	return func(yield func(event) bool) {
		if n >= int(to-from+1)*len(costs)*len(ops) {
			allEvents(limit, from, to, costs, ops, yield)
			return
		}
		for range n {
			at := from + s.random.Int64N(to-from+1)
			if !yield(event{limit: limit, op: oneOf(s, ops...), at: at, cost: oneOf(s, costs...)}) {
				return
			}
		}
	}
}

func allEvents(limit algo.Limit, from, to int64, costs []int64, ops []op, yield func(event) bool) {
	for at := from; at <= to; at++ {
		for _, cost := range costs {
			for _, op := range ops {
				if !yield(event{limit: limit, op: op, at: at, cost: cost}) {
					return
				}
			}
		}
	}
}

// sample returns n random elements, in their order.
func sample[T any](random *rand.Rand, all []T, n int) []T {
	if len(all) <= n {
		return all
	}
	chosen := make([]T, 0, n)
	for i, x := range all {
		if random.IntN(len(all)-i) < n-len(chosen) {
			chosen = append(chosen, x)
		}
	}
	return chosen
}
