package storage

// Idle reports whether nothing is under way or waits.
func (e *Engine) Idle() bool {
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	return e.queue.flights == 0 && e.queue.waiters.calls.Len() == 0 && e.queue.waiters.timer == nil && len(e.queue.lines)+len(e.queue.waiting)+len(e.queue.resting) == 0
}

// Waiting is how many calls wait for those before them.
func (e *Engine) Waiting() int {
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	return len(e.queue.waiting)
}
