package algotest

import "bytes"

func denialKeepsState(p *point) {
	for _, cost := range p.costs() {
		p.clearProbes()
		next, r := p.step(p.state, p.now, cost)
		p.require(r.Allowed || bytes.Equal(next, p.state), "cost %d is denied, but the state changes from %x to %x", cost, p.state, next)
		if r := p.peek(p.state, p.now, 1); r.Remaining < r.Limit || r.ResetAfter > 0 {
			continue // one part of a stack may be full, and another not
		}
		next, _ = p.refund(p.state, p.now, cost)
		p.require(bytes.Equal(next, p.state), "a refund of a full key changes the state from %x to %x", p.state, next)
	}
}

func denialStaysTrue(p *point) {
	var denied []int64
	for _, cost := range p.costs() {
		if !p.peek(p.state, p.now, cost).Allowed {
			denied = append(denied, cost)
		}
	}
	if len(denied) > 3 {
		denied = []int64{denied[0], denied[1], denied[len(denied)-2]}
	}
	p.requireDenied(2, p.state, denied)
}

// requireDenied tries steps up to now. Short sequences are enough: if a long one makes a
// denial wrong, so does one of its steps, from a state on the way.
func (p *point) requireDenied(depth int, state []byte, denied []int64) {
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
				p.require(!p.peek(next, p.now, c).Allowed, "cost %d is denied at %s, but allowed there after a step of %d at %s", c, offset(p.now), cost, offset(at))
			}
			if depth > 1 && cost == 1 {
				p.requireDenied(depth-1, next, denied)
			}
			p.probes = p.probes[:mark]
		}
	}
}
