package algotest

import (
	"iter"
	"math/rand/v2"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// smallLimits walks from state to state under counts to 6 and periods to 12ns.
func (h *hunt) smallLimits() *finding {
	for i := 0; i < 72; i += h.effort.limits {
		limit := algo.Per(int64(i%6)+1, time.Duration(i/6)+1)
		policy := h.policy(limit)
		if policy == nil {
			continue
		}
		bases := []int64{epoch.UnixNano()}
		if i%3 == 0 {
			bases = append(bases, 0)
		}
		for _, base := range bases {
			if f := h.walk(limit, policy, base); f != nil {
				return f
			}
		}
	}
	return nil
}

// walk judges the states that at most effort.depth events lead to, nearest first.
// Layers too large to keep or to judge are sampled.
func (h *hunt) walk(limit algo.Limit, policy algo.Policy, base int64) *finding {
	effort := h.effort.within(limit)
	h.known = seen{}

	layer, been := []*node{root()}, seen{}
	for depth := 0; ; depth++ {
		if f := h.judge(layer, limit, policy, base, effort.judged); f != nil || depth == effort.depth {
			return f
		}
		var next []*node
		for _, n := range layer {
			for e := range h.events(n, limit, policy, base, effort.tries) {
				if to := h.discover(n, policy, e, been); to != n {
					next = append(next, to)
				}
			}
		}
		layer = sample(h.random, next, effort.layer)
	}
}

// judge examines the states at every reading that is worth it, in any order,
// until so many calls are used up.
func (h *hunt) judge(layer []*node, limit algo.Limit, policy algo.Policy, base int64, most int) *finding {
	type place struct {
		n   *node
		now int64
	}
	var places []place
	for _, n := range layer {
		from, to := h.readings(n, limit, base)
		for now := from; now <= to; now++ {
			places = append(places, place{n, now})
		}
	}
	h.random.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	for start := h.calls; len(places) > 0 && h.calls-start < most; places = places[1:] {
		if f := h.examine(places[0].n, limit, policy, places[0].now); f != nil {
			return f
		}
	}
	return nil
}

// readings are the first and the last instant at which a state is worth judging.
func (h *hunt) readings(n *node, limit algo.Limit, base int64) (from, to int64) {
	switch {
	case n.before == nil:
		return base, base + int64(limit.Period)
	case h.law.skewed:
		return base, n.latest + 2*int64(limit.Period) + 2
	}
	return n.latest, n.latest + 2*int64(limit.Period) + 2
}

// events are some of those that can come next: in every phase of the period for
// the first, within two periods from then on.
func (h *hunt) events(n *node, limit algo.Limit, policy algo.Policy, base int64, some int) iter.Seq[event] {
	from, to := base, base+int64(limit.Period)-1
	if n.before != nil {
		to = base + 2*int64(limit.Period) + 2
		if !h.law.skewed {
			from = n.latest
		}
	}
	r, _ := policy.Peek(nil, instant(from), 1)
	costs, verbs := costs(r.Limit, r.Limit), append([]op{step}, h.law.verbs...)
	return func(yield func(event) bool) {
		if some >= int(to-from+1)*len(costs)*len(verbs) {
			every(limit, from, to, costs, verbs, yield)
			return
		}
		for range some {
			at := from + h.random.Int64N(to-from+1)
			if !yield(event{limit: limit, op: pick(h, verbs...), at: at, cost: pick(h, costs...)}) {
				return
			}
		}
	}
}

func every(limit algo.Limit, from, to int64, costs []int64, verbs []op, yield func(event) bool) {
	for at := from; at <= to; at++ {
		for _, cost := range costs {
			for _, op := range verbs {
				if !yield(event{limit: limit, op: op, at: at, cost: cost}) {
					return
				}
			}
		}
	}
}

// sample is n of all, in their order.
func sample[T any](random *rand.Rand, all []T, n int) []T {
	if len(all) <= n {
		return all
	}
	some := make([]T, 0, n)
	for i, x := range all {
		if random.IntN(len(all)-i) < n-len(some) {
			some = append(some, x)
		}
	}
	return some
}
