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
	maxFolded  = 1024 // calls in a round trip
)

// queue is who flies when. A key is under way with one group at a time; calls that
// need it wait in the order of their arrival.
type queue struct {
	combining bool
	inFlight  int // round trips that may be under way
	shared    int // groups that may share one
	room      int // calls that may wait

	mu      sync.Mutex
	trips   int // so far
	flights int // round trips under way
	lines   map[string]*line
	spare   []*line
	waiting []*call  // that are in no group
	ghosts  int      // of these, that were left
	cleared int      // of those, since one left that was in the way of others who wait; 0: none was
	resting []*group // that are to try again
	landed  group    // that of keys which are done, until the way is clear
	trouble error    // why the latest round trip failed, if it did

	deadlines deadlines
}

// line is a key that is under way, or waited for.
type line struct {
	group  *group // that has it under way
	at     int    // among the keys of that
	wanted int    // by so many calls that wait
	passed int    // the trip that such a call did not get a seat on
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
		q.trips++
		q.flights++
		q.depart([]*group{g})
		return true, nil
	}
	if len(q.waiting)-q.ghosts >= q.room {
		return false, fmt.Errorf("%w: %d", ErrOverloaded, len(q.waiting)-q.ghosts)
	}
	q.waiting = append(q.waiting, c)
	q.lineUp(c)
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

// clear ends a line that is of no more use.
func (q *queue) clear(key string, l *line) {
	if l.group == nil && l.wanted == 0 {
		delete(q.lines, key)
		*l = line{}
		if len(q.spare) < maxShared {
			q.spare = append(q.spare, l)
		}
	}
}

func (q *queue) lineUp(c *call) {
	c.lines = c.few.lines[:0]
	for _, key := range c.keys {
		l := q.line(key)
		l.wanted++
		c.lines = append(c.lines, l)
	}
}

// stepOut is for a call that waits no more.
func (q *queue) stepOut(c *call) {
	for i, l := range c.lines {
		l.wanted--
		q.clear(c.keys[i], l)
	}
}

// remain is for one that has flown, and waits now as the others do.
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

// vacate is for a call that waits, and is left: nobody waits for it any more. Its place is
// used again when others board, or when such are most of those that wait.
func (q *queue) vacate(c *call) (next [][]*group) {
	inTheWay := slices.ContainsFunc(c.lines, func(l *line) bool { return l.group == nil && l.wanted > 1 })
	q.stepOut(c)
	q.ghosts++
	if q.ghosts > maxFolded && 2*q.ghosts > len(q.waiting) {
		q.waiting, q.ghosts = slices.DeleteFunc(q.waiting, func(c *call) bool { return c.left }), 0
	}
	if inTheWay || q.cleared > 0 {
		q.cleared++
	}
	// All who wait are looked at, so where they are many it is done once for many who leave.
	if q.cleared > len(q.waiting)/leastShare {
		next = q.takeOff()
	}
	return next
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
		g.trip = 0
		if q.trouble == nil && g.fate != broken {
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
			alone := !g.isCrowd()
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

// breakUp ends the call of g, or if there are several lets each try apart: only
// one of them may be to blame.
func (q *queue) breakUp(g *group, alone bool) []*call {
	if alone {
		for _, c := range g.calls {
			c.err = g.last
		}
		q.release(g.holds)
		return q.finish(g)
	}
	q.release(g.holds)
	for _, c := range g.calls {
		c.group, c.flying, c.apart, c.err = nil, false, true, g.last
		q.lineUp(c)
	}
	q.waiting = slices.Concat(g.calls, q.waiting)
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

// stay drops from g the calls that were left. It reports whether any remain, and
// else releases the keys.
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
	q.clear(key, l)
}

// share is how many groups a flight takes at most: its part of the keys that are under
// way or waited for. If it took all that wait, the next would leave with the few that
// came since, and all the others would wait for one of the two.
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
	q.cleared = 0
	for q.flights < q.inFlight && len(q.resting)+len(q.waiting) > 0 {
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
