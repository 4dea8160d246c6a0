package engine

// Idle reports whether nothing is in flight and nothing waits.
func (e *Engine) Idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range e.queues {
		q.mu.Lock()
		idle := q.inFlight == 0 && q.waiting.Len() == 0 && q.others == 0 && q.locks.Idle()
		q.mu.Unlock()
		if !idle {
			return false
		}
	}
	return true
}
