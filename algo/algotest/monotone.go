package algotest

import (
	"math"
	"testing"
)

// Monotone is law 12: a larger cost is never easier.
func Monotone(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 12, name: "Monotone",
		sentence: "a larger cost is never easier",
		judge:    monotone,
		verbs:    []op{refund, charge}, skewed: true, switches: true,
	}.hold(t, s)
}

// monotone goes up to the costs that no sum in 64 bits survives.
func monotone(p *point) {
	costs := append(p.costs(), 1<<62+1, math.MaxInt64-1, math.MaxInt64)
	for i := 1; i < len(costs); i++ {
		p.forget()
		_, less := p.step(p.state, p.now, costs[i-1])
		_, more := p.step(p.state, p.now, costs[i])
		p.require(less.Allowed || !more.Allowed, "cost %d is denied and cost %d allowed", costs[i-1], costs[i])
		p.require(less.RetryAfter <= more.RetryAfter, "cost %d has RetryAfter %v and cost %d has %v", costs[i-1], less.RetryAfter, costs[i], more.RetryAfter)
	}
}
