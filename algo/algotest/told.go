package algotest

import "testing"

// LimitIsTold is law 15: a policy tells the limit that it was made for.
func LimitIsTold(t testing.TB, s Subject) {
	t.Helper()
	s.effort = effort{limits: 1, layer: 1, tries: 1, judged: 1, random: 2_000} // histories tell nothing more
	law{
		number: 15, name: "LimitIsTold",
		sentence: "a policy tells the limit that it was made for",
		judge:    limitIsTold,
	}.hold(t, s)
}

func limitIsTold(p *point) {
	told := p.policy.Limit()
	p.require(p.subject.Composed || told == p.limit, "made for %v, it tells %v", p.limit, told)
}
