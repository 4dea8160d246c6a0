package engine

// Idle reports whether nothing is in flight and nothing waits.
func (e *Engine) Idle() bool {
	queues := []*queue{e.whole}
	e.mu.Lock()
	for _, q := range e.shards {
		queues = append(queues, q)
	}
	e.mu.Unlock()
	for _, q := range queues {
		q.mu.Lock()
		idle := q.inFlight == 0 && q.waiting.Len() == 0 && q.slotless == 0
		q.mu.Unlock()
		if !idle {
			return false
		}
	}
	return true
}

// CachedDenials returns how many denials are cached.
func (e *Engine) CachedDenials() (n int) {
	for _, d := range e.denials.byKey {
		if !d.dropped {
			n++
		}
	}
	return n
}

// Waiting returns how many requests wait.
func (e *Engine) Waiting() int {
	e.whole.mu.Lock()
	defer e.whole.mu.Unlock()
	return e.whole.waiting.Len()
}
