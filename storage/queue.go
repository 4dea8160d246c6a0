package storage

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	maxShared  = 256  // groups in a round trip
	leastShare = 16   // keys that one may have in any case
	maxFolded  = 1024 // calls in a round trip, from which on nobody joins others
)

// queue is who flies when. A call is one decision, a group is calls that are stored
// together, and a flight takes one group or several to the store and back, in one round
// trip: it is boarded, flies, lands, and clears the way. A key is under way with one group
// at a time; calls that need it wait in its line, in the order of their arrival.
type queue struct {
	combining bool
	inFlight  int // round trips that may be under way
	shared    int // groups that may share one
	room      int // calls that may wait

	mu      sync.Mutex
	trips   int // that were boarded
	flights int // round trips under way
	lines   map[string]*line
	spare   []*line
	waiting int      // calls that are in no group
	ready   waiters  // of these, those that are the first in all their lines, of which none is under way
	resting []*group // that are to try again
	landed  group    // that of keys which are done, until the way is clear
	trouble error    // why the latest round trip failed, if it did

	deadlines deadlines
}

func (q *queue) init(o *EngineOptions) {
	q.combining, q.inFlight, q.shared, q.room = !o.NoCombining, o.InFlight, maxShared, o.Queue
	q.lines = make(map[string]*line)
}

// enter takes the call of g in. It flies at once, in the hands of its caller, if
// nothing is in its way; else it waits.
func (q *queue) enter(c *call, g *group) (flies bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.flights < q.inFlight && q.isFree(c) {
		q.claim(g)
		q.flights++
		q.depart([]*group{g})
		return true, nil
	}
	if q.waiting >= q.room {
		return false, fmt.Errorf("%w: %d", ErrOverloaded, q.waiting)
	}
	c.expect()
	q.lineUp(c, (*waiters).push)
	q.promote(c.places[0].line)
	q.watch(c)
	return false, nil
}

// isFree reports whether the keys of a call are neither under way nor waited for.
func (q *queue) isFree(c *call) bool {
	for _, key := range c.keys {
		if q.lines[key] != nil {
			return false
		}
	}
	return true
}

// line is that of key, which begins here if there is none.
func (q *queue) line(key string) *line {
	l := q.lines[key]
	if l == nil {
		if n := len(q.spare); n > 0 {
			l, q.spare = q.spare[n-1], q.spare[:n-1]
		} else {
			l = new(line)
		}
		q.lines[key] = l
	}
	return l
}

// clear ends a line that nobody has under way or waits in.
func (q *queue) clear(key string, l *line) {
	if l.group == nil && l.first == nil {
		delete(q.lines, key)
		if len(q.spare) < maxShared {
			q.spare = append(q.spare, l)
		}
	}
}

// lineUp lets a call wait, at that end of its lines.
func (q *queue) lineUp(c *call, push func(*waiters, *place)) {
	q.waiting++
	for i, key := range c.keys {
		l := q.line(key)
		c.places[i] = place{call: c, line: l}
		push(&l.waiters, &c.places[i])
	}
}

// stepOut is for a call that waits no more.
func (q *queue) stepOut(c *call) {
	q.waiting--
	for i := range c.places {
		c.places[i].line.remove(&c.places[i])
	}
	if c.ready {
		q.ready.remove(&c.turn)
		c.ready = false
	}
}

// promote makes the first call in a line ready, if it is the first in all its lines and
// none of them is under way.
func (q *queue) promote(l *line) {
	if l.first == nil {
		return
	}
	c := l.first.call
	if c.ready {
		return
	}
	for i := range c.places {
		p := &c.places[i]
		if p.line.first != p || p.line.group != nil {
			return
		}
	}
	c.ready, c.turn = true, place{call: c}
	q.ready.push(&c.turn)
}

// remain is for a call whose caller has flown it, and waits for it now as others do.
func (q *queue) remain(c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !c.finished {
		q.watch(c)
	}
}

// leaving is where a caller stands who will not wait any longer.
type leaving struct {
	late   bool // the answer stands, or will as soon as a flight ends that is being broken off now
	flying bool // the call may yet succeed
	how    How
	last   error      // why it failed so far, if it did
	next   [][]*group // flights that it was in the way of
}

func (q *queue) leave(c *call, now time.Time) leaving {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unwatch(c)
	switch {
	case c.finished || c.flying && !now.Before(c.group.until):
		c.late = true
		return leaving{late: true}
	case c.flying:
		c.left = true
		return leaving{flying: true}
	}
	c.left = true
	switch {
	case c.group != nil: // it was on its way
		return leaving{how: c.how, last: c.why(c.group.last)}
	case c.apart: // it was, with others
		return leaving{how: c.how, last: c.err, next: q.vacate(c)}
	}
	return leaving{how: c.how, last: q.trouble, next: q.vacate(c)}
}

// vacate is for a call that waits, and is left.
func (q *queue) vacate(c *call) (next [][]*group) {
	q.stepOut(c)
	for i, key := range c.keys {
		l := c.places[i].line
		q.promote(l)
		q.clear(key, l)
	}
	return q.takeOff()
}

// landing is what is left to do after a flight, without the lock.
type landing struct {
	finished []*call  // to be told
	lost     []*group // to be looked for
	tired    []*group // to be woken after their rest
	done     []string // keys to be released
}

// land puts groups down where their fate leaves them. The flight goes on until it
// has cleared the way.
func (q *queue) land(groups []*group) (l landing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.trouble = nil
	l.done, l.finished = make([]string, 0, len(groups)), make([]*call, 0, len(groups))
	for _, g := range groups {
		if q.trouble == nil && (g.fate == again || g.fate == lost) {
			q.trouble = g.last
		}
		switch g.fate {
		case again:
			if l.finished = append(l.finished, q.dismiss(g)...); len(g.calls) == 0 {
				q.release(g.holds)
			} else if q.rest(g); g.rest > 0 {
				l.tired = append(l.tired, g)
			}
		case lost:
			if q.stay(g) {
				l.lost = append(l.lost, g)
			}
		case broken:
			alone := !g.isCrowd() // one that is dismissed may be the one to blame
			l.finished = append(l.finished, q.dismiss(g)...)
			l.finished = append(l.finished, q.breakUp(g, alone)...)
		default:
			for i := range g.holds {
				key := g.holds[i].key
				q.lines[key].group = &q.landed
				l.done = append(l.done, key)
			}
			l.finished = append(l.finished, q.finish(g)...)
		}
	}
	return l
}

// settled ends a flight in the hands of its caller, whose answer stands: there is nobody
// to tell.
func (q *queue) settled(g *group) (next [][]*group) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.trouble = nil
	q.flights--
	q.release(g.holds)
	return q.takeOff()
}

// clearWay ends a flight that has landed.
func (q *queue) clearWay(l *landing) (next [][]*group) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flights--
	for _, key := range l.done {
		q.free(key)
	}
	return q.takeOff()
}

// found is land for a group that was lost.
func (q *queue) found(g *group) (finished []*call, next [][]*group) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.release(g.holds)
	return slices.Clone(q.finish(g)), q.takeOff()
}

// wake lets a group that rested try again.
func (q *queue) wake(g *group) (next [][]*group) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.resting = append(q.resting, g)
	return q.takeOff()
}

// finish ends all calls of g.
func (q *queue) finish(g *group) []*call {
	for _, c := range slices.Backward(g.calls) { // the last to come is mostly a leaf of the heap
		q.unwatch(c)
		c.finished, c.flying = true, false
	}
	return g.calls
}

// dismiss ends the calls of g that are late, and drops those that were left.
func (q *queue) dismiss(g *group) (finished []*call) {
	g.calls = slices.DeleteFunc(g.calls, func(c *call) bool {
		if c.late {
			c.err, c.finished = exhausted(c.why(g.last), context.DeadlineExceeded), true
			finished = append(finished, c)
		}
		return c.late || c.left
	})
	return finished
}

// breakUp ends the call of g if it was alone in it, else lets each call try apart: only
// one of them may be to blame.
func (q *queue) breakUp(g *group, alone bool) []*call {
	if alone {
		for _, c := range g.calls {
			c.err = g.last
		}
		q.release(g.holds)
		return q.finish(g)
	}
	for _, c := range slices.Backward(g.calls) {
		c.group, c.flying, c.apart, c.err = nil, false, true, g.last
		q.lineUp(c, (*waiters).pushFirst)
	}
	q.release(g.holds)
	return nil
}

// rest lets g stay where it is, for as long as its pause takes.
func (q *queue) rest(g *group) {
	for _, c := range g.calls {
		c.flying = false
	}
	if g.rest = g.pause.next(g.last); g.rest == 0 {
		q.resting = append(q.resting, g)
	}
}

// stay drops from g the calls that were left, and reports whether any remain; if none
// does, it releases the keys.
func (q *queue) stay(g *group) bool {
	g.calls = slices.DeleteFunc(g.calls, func(c *call) bool { return c.left })
	if len(g.calls) == 0 {
		q.release(g.holds)
	}
	return len(g.calls) > 0
}

// release gives up keys.
func (q *queue) release(holds []hold) {
	for i := range holds {
		q.free(holds[i].key)
	}
}

func (q *queue) free(key string) {
	l := q.lines[key]
	l.group = nil
	q.promote(l)
	q.clear(key, l)
}

// share is how many keys a flight takes at most: its part of those that are under way or
// waited for. If it took all that wait, the next would leave with the few that came since,
// and all the others would wait for one of the two.
func (q *queue) share() int {
	return max(leastShare, len(q.lines)/q.inFlight+1)
}

// claim takes the keys of g, each of which is free or its own.
func (q *queue) claim(g *group) {
	for i := range g.holds {
		l := q.line(g.holds[i].key)
		l.group, l.at = g, i
	}
	for _, c := range g.calls {
		c.group = g
	}
}

// takeOff is the flights that can take off now.
func (q *queue) takeOff() (flights [][]*group) {
	for q.flights < q.inFlight && (len(q.resting) > 0 || q.ready.first != nil) {
		b := boarding{queue: q}
		groups := b.board()
		if len(groups) == 0 {
			break
		}
		q.flights++
		q.depart(groups)
		flights = append(flights, groups)
	}
	return flights
}

// depart marks groups as those of the present trip.
func (q *queue) depart(groups []*group) {
	var until time.Time
	for _, g := range groups {
		for _, c := range g.calls {
			c.flying = true
			if c.deadline.After(until) {
				until = c.deadline
			}
		}
	}
	for _, g := range groups {
		g.until = until
	}
}
