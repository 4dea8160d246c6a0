package httplimit

import (
	"sync"
	"time"
)

// denialGroups has the denialGroup of each denial that delays a request of a Transport. Its lock
// guards the groups too. It is taken inside the lock of a hostQueue, never around it.
type denialGroups struct {
	mu     sync.Mutex
	groups map[denial]*denialGroup
}

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
	all      *denialGroups
	denial   denial
	requests int // all that wait or have a turn
	retryAt  time.Time
	line     []*pendingRequest // by arrival; of each queue only those that were first of the group
	turns    int               // that have begun and not ended
	granted  int               // turns that ended without a denial since retryAt was set
}

// deny adds a request to the group of its denial.
func (all *denialGroups) deny(d denial, retryAt time.Time) *denialGroup {
	all.mu.Lock()
	defer all.mu.Unlock()
	g := all.groups[d]
	if g == nil {
		if all.groups == nil {
			all.groups = make(map[denial]*denialGroup)
		}
		g = &denialGroup{all: all, denial: d}
		all.groups[d] = g
	}
	g.requests++
	g.retryAt, g.granted = retryAt, 0
	g.wakeFirst()
	return g
}

// leave removes a request that neither waits nor has a turn.
func (g *denialGroup) leave() {
	g.all.mu.Lock()
	defer g.all.mu.Unlock()
	if g.requests--; g.requests == 0 {
		delete(g.all.groups, g.denial)
	}
}

// takeTurn puts p in line and reports whether its turn begins now. If p could have a turn but is not
// ready, p leaves the line. The caller holds the lock of the queue of p.
func (g *denialGroup) takeTurn(p *pendingRequest, now time.Time, ready bool) bool {
	g.all.mu.Lock()
	defer g.all.mu.Unlock()
	if !p.inLine {
		p.inLine, g.line = true, insert(g.line, p)
	}
	if g.line[0] != p || g.isFull() || g.retryAt.After(now) {
		return false
	}
	if ready {
		g.turns++
	}
	g.remove(p)
	return ready
}

// turnAt returns when p can have a turn, if that is known. Otherwise p will be woken then.
func (g *denialGroup) turnAt(p *pendingRequest) (at time.Time, known bool) {
	g.all.mu.Lock()
	defer g.all.mu.Unlock()
	return g.retryAt, g.line[0] == p && !g.isFull()
}

// withdraw removes p from the line. The caller holds the lock of the queue of p.
func (g *denialGroup) withdraw(p *pendingRequest) {
	g.all.mu.Lock()
	defer g.all.mu.Unlock()
	g.remove(p)
}

// endTurn is called when a request that had a turn has no slot any more.
func (g *denialGroup) endTurn(denied bool) {
	g.all.mu.Lock()
	defer g.all.mu.Unlock()
	g.turns--
	if !denied {
		g.granted++
	}
	g.wakeFirst()
}

func (g *denialGroup) remove(p *pendingRequest) {
	p.inLine, g.line = false, remove(g.line, p)
	g.wakeFirst()
}

func (g *denialGroup) isFull() bool { return g.turns >= max(g.granted, 1) }

func (g *denialGroup) wakeFirst() {
	if len(g.line) > 0 && !g.isFull() {
		g.line[0].wake()
	}
}
