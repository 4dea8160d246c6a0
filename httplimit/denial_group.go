package httplimit

import (
	"container/list"
	"time"
)

// denial identifies calls that a limiter denies for the same time: calls of one cost under
// one key of a rule.
type denial struct {
	rule, key string
	cost      int64
}

// denialGroup has the requests, of all queues, that the Limiter last denied with the same denial. At
// retryAt, the first waiting request gets a slot, and the Limiter decides about it again. Then the next
// one gets a slot, until the Limiter denies a request. So the number of decisions does not depend on the
// number of queues.
//
// Several requests of a group can have slots at the same time: at most one after a denial, and at most
// n after n slots ended without a denial. So with a slow store the group soon uses the whole limit.
// Unless others use the limit too, at most half of the slots end with a denial.
//
// If the server of the first waiting request does not accept it, this request waits in the queue of its
// server, and the next one gets the slot. It returns to the group when its server accepts it.
type denialGroup struct {
	denial   denial
	requests int // all that wait or have a slot
	retryAt  time.Time
	waiting  list.List   // until the group has a slot for them; by arrival
	slots    int         // requests that have a slot
	admitted int         // slots that ended without a denial since retryAt was set
	timer    *time.Timer // when the next request can get a slot; wakes one request, which calls dispatch
}

// setGroup moves a request that neither waits nor has a slot to the group of a denial, or to none.
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

// dispatch gives slots to the first waiting requests whose servers accept them.
func (g *denialGroup) dispatch(now time.Time) {
	for p := first(&g.waiting); p != nil && g.hasFreeSlot(now); p = first(&g.waiting) {
		p.moveTo(&p.queue.denied)
		p.queue.dispatch(now)
	}
}

// takeSlot takes a slot of the group for a request. It returns false if the request has to wait.
func (g *denialGroup) takeSlot(p *pendingRequest, now time.Time) bool {
	if before := first(&g.waiting); !g.hasFreeSlot(now) || before != nil && before.arrival < p.arrival {
		return false
	}
	g.slots++
	return true
}

func (g *denialGroup) hasFreeSlot(now time.Time) bool {
	return g.slots < max(g.admitted, 1) && !g.retryAt.After(now)
}
