package storage

import "time"

// vigil is who waits for an answer, in the order of their deadlines. That is mostly the
// order of their arrival, since all have the same budget. A timer for all of them is
// cheaper than one for each.
type vigil struct {
	first, last *call
	timer       *time.Timer // set while anybody waits
}

// watch lets the call be told when its time is over.
func (q *queue) watch(c *call) {
	v := &q.vigil
	c.watched, c.before = true, v.last
	for c.before != nil && c.before.deadline.After(c.deadline) {
		c.before = c.before.before
	}
	if c.before == nil {
		c.after, v.first = v.first, c
	} else {
		c.after, c.before.after = c.before.after, c
	}
	if c.after == nil {
		v.last = c
	} else {
		c.after.before = c
	}
	switch {
	case v.timer == nil:
		v.timer = time.AfterFunc(time.Until(c.deadline), q.tellOverdue)
	case v.first == c:
		v.timer.Reset(time.Until(c.deadline))
	}
}

func (q *queue) unwatch(c *call) {
	if !c.watched {
		return
	}
	v := &q.vigil
	if c.watched = false; c.before != nil {
		c.before.after = c.after
	} else {
		v.first = c.after
	}
	if c.after != nil {
		c.after.before = c.before
	} else {
		v.last = c.before
	}
	c.before, c.after = nil, nil
	if v.first == nil {
		v.timer.Stop()
		v.timer = nil
	}
}

// tellOverdue tells those whose time is over.
func (q *queue) tellOverdue() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for now := time.Now(); q.vigil.first != nil && !now.Before(q.vigil.first.deadline); {
		c := q.vigil.first
		q.unwatch(c)
		c.done <- false
	}
	if q.vigil.first != nil {
		q.vigil.timer.Reset(time.Until(q.vigil.first.deadline))
	}
}
