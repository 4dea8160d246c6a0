package storage

import (
	"container/heap"
	"slices"
	"time"
)

// deadlines are those of the calls whose callers wait for an answer, a heap. A timer for
// all of them is cheaper than one for each.
type deadlines struct {
	calls []*call
	timer *time.Timer // set while there are any
	set   int         // timers so far: one that was stopped may be about to fire
}

func (d *deadlines) Len() int           { return len(d.calls) }
func (d *deadlines) Less(i, j int) bool { return d.calls[i].deadline.Before(d.calls[j].deadline) }
func (d *deadlines) Swap(i, j int) {
	d.calls[i], d.calls[j] = d.calls[j], d.calls[i]
	d.calls[i].watched, d.calls[j].watched = i+1, j+1
}

func (d *deadlines) Push(c any) {
	d.calls = append(d.calls, c.(*call))
	c.(*call).watched = len(d.calls)
}

func (d *deadlines) Pop() any {
	last := len(d.calls) - 1
	c := d.calls[last]
	d.calls, c.watched = slices.Delete(d.calls, last, last+1), 0
	return c
}

// watch lets the call be told when its time is over.
func (q *queue) watch(c *call) {
	d := &q.deadlines
	heap.Push(d, c)
	switch {
	case d.timer == nil:
		d.set++
		set := d.set
		d.timer = time.AfterFunc(time.Until(c.deadline), func() { q.tellOverdue(set) })
	case d.calls[0] == c:
		d.timer.Reset(time.Until(c.deadline))
	}
}

func (q *queue) unwatch(c *call) {
	if c.watched == 0 {
		return
	}
	d := &q.deadlines
	if heap.Remove(d, c.watched-1); len(d.calls) == 0 {
		d.timer.Stop()
		d.timer = nil
	}
}

// tellOverdue tells those whose time is over, if the timer is still set.
func (q *queue) tellOverdue(set int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, d := time.Now(), &q.deadlines
	if d.timer == nil || d.set != set {
		return
	}
	for len(d.calls) > 0 && !now.Before(d.calls[0].deadline) {
		c := d.calls[0]
		q.unwatch(c)
		c.done <- overdue
	}
	if len(d.calls) > 0 {
		d.timer.Reset(d.calls[0].deadline.Sub(now))
	}
}
