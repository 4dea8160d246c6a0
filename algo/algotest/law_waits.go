package algotest

import "github.com/sluice-go/sluice/algo"

// timesBefore returns instants after now and before end.
func timesBefore(now, end int64) (all []int64) {
	for _, at := range []int64{end - 1, now + (end-now)/2, now + 1} {
		if at > now && at < end {
			all = append(all, min(at, algo.MaxInstant))
		}
	}
	return all
}

func retryIsExact(p *point) {
	for c := range p.each(step) {
		cost, r := c.cost, c.r
		if r.Allowed {
			p.require(r.RetryAfter == 0, "cost %d is allowed, but RetryAfter is %v", cost, r.RetryAfter)
			continue
		}
		p.require(r.RetryAfter > 0, "cost %d is denied, but RetryAfter is %v", cost, r.RetryAfter)
		p.require(cost <= r.Limit || r.RetryAfter == algo.Never,
			"cost %d exceeds the capacity of %d, but RetryAfter is %v", cost, r.Limit, r.RetryAfter)

		retry := after(p.now, r.RetryAfter)
		for _, at := range timesBefore(p.now, retry) {
			p.require(!p.peek(p.state, at, cost).Allowed, "cost %d is denied at %s with RetryAfter %v, but allowed at %s",
				cost, offset(p.now), r.RetryAfter, offset(at))
		}
		if retry <= algo.MaxInstant {
			p.require(p.peek(p.state, retry, cost).Allowed, "cost %d is denied at %s with RetryAfter %v, and still denied at %s",
				cost, offset(p.now), r.RetryAfter, offset(retry))
		}
	}
}

func nextRefillIsExact(p *point) {
	for c := range p.each(allOps...) {
		r := c.r
		if !isExact(r) {
			continue
		}
		p.require((r.NextRefill == 0) == (r.Remaining >= r.Limit), "%d of %d units are left, but NextRefill is %v", r.Remaining, r.Limit, r.NextRefill)
		p.require(r.NextRefill >= 0, "NextRefill is %v", r.NextRefill)
		refill := after(p.now, r.NextRefill)
		for _, at := range timesBefore(p.now, refill) {
			left := p.peek(c.next, at, 1).Remaining
			p.require(left <= r.Remaining, "%d units are left at %s with NextRefill %v, but %d at %s",
				r.Remaining, offset(p.now), r.NextRefill, left, offset(at))
		}
		if r.NextRefill > 0 && refill <= algo.MaxInstant {
			left := p.peek(c.next, refill, 1).Remaining
			p.require(left > r.Remaining, "%d units are left at %s with NextRefill %v, but only %d at %s",
				r.Remaining, offset(p.now), r.NextRefill, left, offset(refill))
		}
	}
}

func resetIsExact(p *point) {
	for c := range p.each(allOps...) {
		if !isExact(c.r) || len(c.next) == 0 {
			continue
		}
		p.require(c.r.ResetAfter >= 0, "ResetAfter is %v", c.r.ResetAfter)
		reset := after(p.now, c.r.ResetAfter)
		if c.r.ResetAfter == 0 {
			reset = max(reset, p.past.latest)
		}
		if reset > algo.MaxInstant || !p.isNew(c.next, reset) {
			continue
		}
		p.requireExpired(c.next, reset)
		if c.r.ResetAfter > 0 {
			p.requireNotExpired(c.next, reset-1)
		}
	}
}

// requireExpired requires that from t on the state decides like a new key.
func (p *point) requireExpired(state []byte, t int64) {
	for _, at := range []int64{t, t + 1, t + (algo.MaxInstant-t)/2} {
		if at > algo.MaxInstant {
			continue
		}
		for _, cost := range []int64{1, p.peek(nil, at, 1).Limit} {
			a, x := p.call(step, nil, at, cost)
			b, y := p.call(step, state, at, cost)
			if x != y {
				p.fail("ResetAfter ends at %s, but at %s a step of cost %d returns\n    %+v, and for a new key\n    %+v",
					offset(t), offset(at), cost, y, x)
			}
			p.requireAlike(a, b, at, sameResult, "after the same step on a new key and on an expired state")
		}
	}
}

// requireNotExpired requires that at t the state does not decide like a new key. In a composed
// policy, one part can hide the difference in another, so any field may differ.
func (p *point) requireNotExpired(state []byte, t int64) {
	all := p.peek(state, t, 1).Limit
	x, y := p.peek(state, t, all), p.peek(nil, t, all)
	differ := !sameDecision(x, y)
	if p.subject.Composed {
		differ = x != y
	}
	p.require(differ, "ResetAfter ends at %s, but the state already decides like a new key at %s", offset(t+1), offset(t))
}
