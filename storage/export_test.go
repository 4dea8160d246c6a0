package storage

// Idle reports whether nothing is under way or waits.
func (e *Engine) Idle() bool {
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	q := &e.queue
	timed := q.deadlines.Len() > 0 || q.deadlines.timer != nil
	return q.flights == 0 && !timed && len(q.lines)+q.waiting+len(q.resting) == 0
}

// Waiting is how many calls wait for those before them.
func (e *Engine) Waiting() int {
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	return e.queue.waiting
}
