package algotest

import "testing"

// Indivisible is law 11: steps c1 then c2 at one instant equal one step of c1+c2,
// when both are allowed.
func Indivisible(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 11, name: "Indivisible",
		sentence: "steps c1 then c2 at one instant equal one step of c1+c2, when both are allowed",
		judge:    indivisible,
		verbs:    []op{refund, charge}, skewed: true,
	}.hold(t, s)
}

func indivisible(p *point) {
	for _, c1 := range p.costs() {
		for _, c2 := range p.costs() {
			p.forget()
			first, r1 := p.step(p.state, p.now, c1)
			if !r1.Allowed {
				break
			}
			second, r2 := p.step(first, p.now, c2)
			if !r2.Allowed || c1+c2 < 0 {
				continue
			}
			once, r := p.step(p.state, p.now, c1+c2)
			p.require(r.Allowed, "%d and then %d are allowed at %s, and %d at once is denied", c1, c2, offset(p.now), c1+c2)
			if r.Remaining != r2.Remaining || r.NextRefill != r2.NextRefill || r.ResetAfter != r2.ResetAfter {
				p.fail("%d and then %d at %s leave\n    %+v, and %d at once\n    %+v", c1, c2, offset(p.now), r2, c1+c2, r)
			}
			p.alike(second, once, max(p.now, p.past.latest), decidesAlike, "after two steps, or one of their sum")
		}
	}
}
