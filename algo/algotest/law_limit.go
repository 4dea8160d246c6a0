package algotest

func limitIsReported(p *point) {
	limit := p.policy.Limit()
	p.require(p.subject.Composed || limit == p.limit, "the limit is %v, but Limit returns %v", p.limit, limit)
}
