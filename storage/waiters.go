package storage

import (
	"container/list"
	"time"
)

// waiters is whose callers wait for an answer, in the order of their deadlines. That is
// mostly the order of their arrival, since all have the same budget. A timer for all of
// them is cheaper than one for each.
type waiters struct {
	calls list.List
	timer *time.Timer // set while there are any
}

// first is whose time is over first, nil if there is nobody.
func (w *waiters) first() *call {
	if e := w.calls.Front(); e != nil {
		return e.Value.(*call)
	}
	return nil
}

// watch lets the call be told when its time is over.
func (q *queue) watch(c *call) {
	w := &q.waiters
	before := w.calls.Back()
	for before != nil && before.Value.(*call).deadline.After(c.deadline) {
		before = before.Prev()
	}
	if before != nil {
		c.waits = w.calls.InsertAfter(c, before)
		return
	}
	c.waits = w.calls.PushFront(c)
	if left := time.Until(c.deadline); w.timer == nil {
		w.timer = time.AfterFunc(left, q.tellOverdue)
	} else {
		w.timer.Reset(left)
	}
}

func (q *queue) unwatch(c *call) {
	if c.waits == nil {
		return
	}
	w := &q.waiters
	w.calls.Remove(c.waits)
	if c.waits = nil; w.calls.Len() == 0 {
		w.timer.Stop()
		w.timer = nil
	}
}

// tellOverdue tells those whose time is over.
func (q *queue) tellOverdue() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, c := time.Now(), q.waiters.first()
	for ; c != nil && !now.Before(c.deadline); c = q.waiters.first() {
		q.unwatch(c)
		c.done <- false
	}
	if c != nil {
		q.waiters.timer.Reset(c.deadline.Sub(now))
	}
}
