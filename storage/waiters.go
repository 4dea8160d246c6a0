package storage

import "time"

// waiters is who waits for an answer, in the order of their deadlines. That is mostly the
// order of their arrival, since all have the same budget. A timer for all of them is
// cheaper than one for each.
type waiters struct {
	first, last *call
	timer       *time.Timer // set while anybody waits
}

// watch lets the call be told when its time is over.
func (q *queue) watch(c *call) {
	w := &q.waiters
	c.watched, c.before = true, w.last
	for c.before != nil && c.before.deadline.After(c.deadline) {
		c.before = c.before.before
	}
	if c.before == nil {
		c.after, w.first = w.first, c
	} else {
		c.after, c.before.after = c.before.after, c
	}
	if c.after == nil {
		w.last = c
	} else {
		c.after.before = c
	}
	switch {
	case w.timer == nil:
		w.timer = time.AfterFunc(time.Until(c.deadline), q.tellOverdue)
	case w.first == c:
		w.timer.Reset(time.Until(c.deadline))
	}
}

func (q *queue) unwatch(c *call) {
	if !c.watched {
		return
	}
	w := &q.waiters
	if c.watched = false; c.before != nil {
		c.before.after = c.after
	} else {
		w.first = c.after
	}
	if c.after != nil {
		c.after.before = c.before
	} else {
		w.last = c.before
	}
	c.before, c.after = nil, nil
	if w.first == nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// tellOverdue tells those whose time is over.
func (q *queue) tellOverdue() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for now := time.Now(); q.waiters.first != nil && !now.Before(q.waiters.first.deadline); {
		c := q.waiters.first
		q.unwatch(c)
		c.done <- false
	}
	if q.waiters.first != nil {
		q.waiters.timer.Reset(time.Until(q.waiters.first.deadline))
	}
}
