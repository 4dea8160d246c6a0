package algotest

import (
	"testing"

	"github.com/sluice-go/sluice/algo"
)

// RetryIsExact is law 5: at RetryAfter-1ns the same cost is still denied, at
// RetryAfter it is allowed.
func RetryIsExact(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 5, name: "RetryIsExact",
		sentence: "at RetryAfter-1ns the same cost is still denied, at RetryAfter it is allowed",
		judge:    retryIsExact,
		verbs:    []op{refund, charge}, skewed: true, switches: true,
	}.hold(t, s)
}

func retryIsExact(p *point) {
	for _, cost := range p.costs() {
		p.forget()
		_, r := p.step(p.state, p.now, cost)
		if r.Allowed {
			p.require(r.RetryAfter == 0, "cost %d is allowed, with RetryAfter %v", cost, r.RetryAfter)
			continue
		}
		p.require(r.RetryAfter > 0, "cost %d is denied, with RetryAfter %v", cost, r.RetryAfter)
		p.require(cost <= r.Limit || r.RetryAfter == algo.Never,
			"cost %d is above the capacity of %d, and yet RetryAfter is %v", cost, r.Limit, r.RetryAfter)

		retry := after(p.now, r.RetryAfter)
		for _, at := range []int64{retry - 1, p.now + (retry-p.now)/2, p.now + 1} {
			if at > p.now && at < retry {
				at = min(at, algo.MaxInstant)
				p.require(!p.peek(p.state, at, cost).Allowed, "cost %d is denied at %s with RetryAfter %v, and allowed at %s already",
					cost, offset(p.now), r.RetryAfter, offset(at))
			}
		}
		if retry <= algo.MaxInstant {
			p.require(p.peek(p.state, retry, cost).Allowed, "cost %d is denied at %s with RetryAfter %v, and denied still at %s",
				cost, offset(p.now), r.RetryAfter, offset(retry))
		}
	}
}
