package algotest

import "math"

func costsAddUp(p *point) {
	for _, c1 := range p.costs() {
		for _, c2 := range p.costs() {
			p.clearProbes()
			first, r1 := p.step(p.state, p.now, c1)
			if !r1.Allowed {
				break
			}
			second, r2 := p.step(first, p.now, c2)
			if !r2.Allowed || c1+c2 < 0 {
				continue
			}
			once, r := p.step(p.state, p.now, c1+c2)
			p.require(r.Allowed, "%d and then %d are allowed at %s, but %d at once is denied", c1, c2, offset(p.now), c1+c2)
			if r.Remaining != r2.Remaining || r.NextRefill != r2.NextRefill || r.ResetAfter != r2.ResetAfter {
				p.fail("steps of %d and then %d at %s return\n    %+v, and a step of %d\n    %+v", c1, c2, offset(p.now), r2, c1+c2, r)
			}
			p.requireAlike(second, once, max(p.now, p.past.latest), sameDecision, "after two steps, or one of their sum")
		}
	}
}

// largerCostIsHarder also tries costs whose sums overflow 64 bits.
func largerCostIsHarder(p *point) {
	costs := append(p.costs(), 1<<62+1, math.MaxInt64-1, math.MaxInt64)
	for i := 1; i < len(costs); i++ {
		p.clearProbes()
		_, smaller := p.step(p.state, p.now, costs[i-1])
		_, larger := p.step(p.state, p.now, costs[i])
		p.require(smaller.Allowed || !larger.Allowed, "cost %d is denied, but cost %d is allowed", costs[i-1], costs[i])
		p.require(smaller.RetryAfter <= larger.RetryAfter, "cost %d has RetryAfter %v, but cost %d has %v", costs[i-1], smaller.RetryAfter, costs[i], larger.RetryAfter)
	}
}
