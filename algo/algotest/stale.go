package algotest

import "testing"

// StaleDenialIsTrue is law 10: a stale denial is a true denial: if s denies c at
// t, every state reached from s by steps at times <= t denies c at t.
func StaleDenialIsTrue(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 10, name: "StaleDenialIsTrue",
		sentence: "a stale denial is a true denial: if s denies c at t, every state reached from s by steps at times <= t denies c at t",
		judge:    staleDenialIsTrue,
		verbs:    []op{charge}, skewed: true,
	}.hold(t, s)
}

func staleDenialIsTrue(p *point) {
	var denied []int64
	for _, cost := range p.costs() {
		if !p.peek(p.state, p.now, cost).Allowed {
			denied = append(denied, cost)
		}
	}
	if len(denied) > 3 {
		denied = []int64{denied[0], denied[1], denied[len(denied)-2]}
	}
	p.staysDenied(2, p.state, denied)
}

// staysDenied tries steps up to now. Whoever wins with more of them wins with one
// of them from some state on the way.
func (p *point) staysDenied(depth int, state []byte, denied []int64) {
	for _, at := range []int64{p.now, p.now - 1, p.past.latest, p.past.latest - 1} {
		if at < 0 || at > p.now {
			continue
		}
		for _, cost := range costs(p.peek(state, at, 1).Limit, p.peek(state, at, 1).Remaining) {
			mark := len(p.probes)
			next, r := p.step(state, at, cost)
			if !r.Allowed {
				continue
			}
			for _, c := range denied {
				p.require(!p.peek(next, p.now, c).Allowed, "cost %d is denied at %s; after a step of %d at %s it is allowed there", c, offset(p.now), cost, offset(at))
			}
			if depth > 1 && cost == 1 {
				p.staysDenied(depth-1, next, denied)
			}
			p.probes = p.probes[:mark]
		}
	}
}
