package algotest

import (
	"bytes"
	"testing"
)

// DenialIsInert is law 4: a denied step and a peek return the very same state, so
// nothing is ever written for them.
func DenialIsInert(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 4, name: "DenialIsInert",
		sentence: "a denied step and a peek return the very same state, so nothing is ever written for them",
		judge:    denialIsInert,
		verbs:    []op{refund, charge}, skewed: true, switches: true,
	}.hold(t, s)
}

func denialIsInert(p *point) {
	for _, cost := range p.costs() {
		p.forget()
		next, r := p.step(p.state, p.now, cost)
		p.require(r.Allowed || bytes.Equal(next, p.state), "cost %d is denied, and the state changes from %x to %x", cost, p.state, next)
		if r := p.peek(p.state, p.now, 1); r.Remaining < r.Limit || r.ResetAfter > 0 {
			continue // a stack may be full in the part with the least, and not in another
		}
		next, _ = p.refund(p.state, p.now, cost)
		p.require(bytes.Equal(next, p.state), "a refund of a full key changes the state from %x to %x", p.state, next)
	}
}
