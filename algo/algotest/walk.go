package algotest

import (
	"fmt"
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
	share := effort.small / (72 / effort.limits) / effort.depth
	h.known = map[string]bool{}

	layer, seen := []*node{root()}, map[string]bool{}
	for depth := 0; ; depth++ {
		if f := h.judge(layer, limit, policy, base, share); f != nil || depth == effort.depth {
			return f
		}
		var next []*node
		for _, n := range layer {
			for _, e := range h.events(n, limit, policy, base, effort.tries) {
				to := h.try(n, policy, e)
				id := fmt.Sprint(to.latest) + string(to.state)
				if to != n && !seen[id] {
					seen[id] = true
					next = append(next, to)
				}
			}
		}
		layer = sample(h.random, next, effort.layer)
	}
}

// judge examines the states at every reading that is worth it, in any order,
// until its share of calls is used up.
func (h *hunt) judge(layer []*node, limit algo.Limit, policy algo.Policy, base int64, share int) *finding {
	type place struct {
		n   *node
		now int64
	}
	var places []place
	for _, n := range layer {
		for _, now := range h.readings(n, limit, base) {
			places = append(places, place{n, now})
		}
	}
	h.random.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	for start := h.calls; len(places) > 0 && h.calls-start < share; places = places[1:] {
		if f := h.examine(places[0].n, limit, policy, places[0].now); f != nil {
			return f
		}
	}
	return nil
}

// readings are the instants at which a state is worth judging.
func (h *hunt) readings(n *node, limit algo.Limit, base int64) []int64 {
	from, to := n.latest, n.latest+2*int64(limit.Period)+2
	if n.before == nil {
		from, to = base, base+int64(limit.Period)
	} else if h.law.skewed {
		from = base
	}
	return span(from, to)
}

// events are some of those that can come next: in every phase of the period for
// the first, within two periods from then on.
func (h *hunt) events(n *node, limit algo.Limit, policy algo.Policy, base int64, some int) []event {
	from, to := base, base+int64(limit.Period)-1
	if n.before != nil {
		to = base + 2*int64(limit.Period) + 2
		if !h.law.skewed {
			from = n.latest
		}
	}
	r, _ := policy.Peek(nil, instant(from), 1)
	ats, costs, verbs := span(from, to), costs(r.Limit, r.Limit), append([]op{step}, h.law.verbs...)
	if some >= len(ats)*len(costs)*len(verbs) {
		return every(limit, ats, costs, verbs)
	}
	events := make([]event, some)
	for i := range events {
		events[i] = event{limit: limit, op: pick(h, verbs...), at: pick(h, ats...), cost: pick(h, costs...)}
	}
	return events
}

func every(limit algo.Limit, ats, costs []int64, verbs []op) []event {
	var all []event
	for _, at := range ats {
		for _, cost := range costs {
			for _, op := range verbs {
				all = append(all, event{limit: limit, op: op, at: at, cost: cost})
			}
		}
	}
	return all
}

func span(from, to int64) []int64 {
	var all []int64
	for t := from; t <= to; t++ {
		all = append(all, t)
	}
	return all
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
