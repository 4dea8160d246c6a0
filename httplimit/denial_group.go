package httplimit

import "time"

// denial identifies calls that a limiter denies for the same time: calls of one cost under
// one key of a rule.
type denial struct {
	rule, key string
	cost      int64
}

// denialGroup has the requests, of all queues, that the Limiter last denied with the same denial.
// At retryAt, the first request in line has a turn: it gets a slot, and the Limiter decides about it
// again. Then the next one has a turn, until the Limiter denies one. So the number of decisions does
// not depend on the number of queues.
//
// Several requests can have a turn at the same time: at most one after a denial, and at most n after
// n turns ended without a denial. So with a slow store the group soon uses the whole limit. Unless
// others use the limit too, at most half of its turns end with a denial.
//
// If a server does not accept the first request in line, this request leaves the line, and the next
// one has a turn. It returns to the line when its server accepts it. So it costs nothing meanwhile.
type denialGroup struct {
	denial   denial
	requests int // all that wait or have a turn
	retryAt  time.Time
	line     []*pendingRequest // by arrival
	turns    int               // that have begun and not ended
	granted  int               // turns that ended without a denial since retryAt was set
	timer    *time.Timer       // when a turn can begin; wakes one request, which calls dispatch
}

// setGroup moves a request that neither waits nor has a turn to the group of a denial, or to none.
func (t *Transport) setGroup(p *pendingRequest, to *denial) {
	before := p.group
	p.group = nil
	if to != nil {
		if t.groups[*to] == nil {
			t.groups[*to] = &denialGroup{denial: *to, timer: time.NewTimer(0)}
		}
		p.group = t.groups[*to]
		p.group.requests++
	}
	if before != nil {
		if before.requests--; before.requests == 0 {
			delete(t.groups, before.denial)
		}
	}
}

// dispatch gives turns to the first requests in line whose servers accept them.
func (g *denialGroup) dispatch(now time.Time) {
	for len(g.line) > 0 && g.hasTurn(now) {
		p := g.line[0]
		p.moveTo(&p.queue.denied)
		p.queue.dispatch(now)
	}
}

// takeTurn reports whether the turn of a request begins now.
func (g *denialGroup) takeTurn(p *pendingRequest, now time.Time) bool {
	if !g.hasTurn(now) || len(g.line) > 0 && g.line[0].arrival < p.arrival {
		return false
	}
	g.turns++
	return true
}

func (g *denialGroup) hasTurn(now time.Time) bool {
	return g.turns < max(g.granted, 1) && !g.retryAt.After(now)
}
