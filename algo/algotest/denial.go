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
		if p.peek(p.state, p.now, 1).Remaining < r.Limit {
			continue
		}
		next, _ = p.refund(p.state, p.now, cost)
		p.require(bytes.Equal(next, p.state), "a refund of a full key changes the state from %x to %x", p.state, next)
	}
}
