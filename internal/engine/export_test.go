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
		idle := q.inFlight == 0 && q.waiting == 0 && q.apart == 0
		q.mu.Unlock()
		if !idle {
			return false
		}
	}
	return true
}

// CachedDenials is how many keys the cache holds.
func (e *Engine) CachedDenials() (n int) {
	for i := range e.denials.blocks {
		block := e.denials.blocks[i].Load()
		if block == nil {
			continue
		}
		for j := range block {
			if d := block[j].Load(); d != nil && !d.dropped {
				n++
			}
		}
	}
	return n
}

// LineLength is how many places the line has, those of callers that have left included.
func (e *Engine) LineLength() int {
	e.whole.mu.Lock()
	defer e.whole.mu.Unlock()
	return len(e.whole.line)
}
