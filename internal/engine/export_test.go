package engine

// Idle reports whether nothing is in flight and nothing waits.
func (e *Engine) Idle() bool {
	for _, known := range e.queues.Range {
		q := known.(*queue)
		q.mu.Lock()
		idle := q.inFlight == 0 && q.waiting.Len() == 0 && q.others == 0 && q.locks.Idle()
		q.mu.Unlock()
		if !idle {
			return false
		}
	}
	return true
}
