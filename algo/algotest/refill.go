package algotest

import (
	"testing"

	"github.com/sluice-go/sluice/algo"
)

// NextRefillIsExact is law 6: Remaining does not grow before NextRefill and has
// grown at it.
func NextRefillIsExact(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 6, name: "NextRefillIsExact",
		sentence: "Remaining does not grow before NextRefill and has grown at it",
		judge:    nextRefillIsExact,
		verbs:    []op{refund, charge}, skewed: true, switches: true,
	}.hold(t, s)
}

func nextRefillIsExact(p *point) {
	for _, cost := range p.costs() {
		for _, op := range []op{step, peek, refund, charge} {
			p.forget()
			next, r := p.call(op, p.state, p.now, cost)
			if !exact(r) {
				continue
			}
			p.require((r.NextRefill == 0) == (r.Remaining >= r.Limit), "%d of %d units are left, and NextRefill is %v", r.Remaining, r.Limit, r.NextRefill)
			p.require(r.NextRefill >= 0, "NextRefill is %v", r.NextRefill)
			refill := after(p.now, r.NextRefill)
			for _, at := range []int64{refill - 1, p.now + (refill-p.now)/2, p.now + 1} {
				if at > p.now && at < refill {
					at = min(at, algo.MaxInstant)
					left := p.peek(next, at, 1).Remaining
					p.require(left <= r.Remaining, "%d left at %s with NextRefill %v, and %d left at %s already",
						r.Remaining, offset(p.now), r.NextRefill, left, offset(at))
				}
			}
			if r.NextRefill > 0 && refill <= algo.MaxInstant {
				left := p.peek(next, refill, 1).Remaining
				p.require(left > r.Remaining, "%d left at %s with NextRefill %v, and %d left still at %s",
					r.Remaining, offset(p.now), r.NextRefill, left, offset(refill))
			}
		}
	}
}
