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
		idle := q.inFlight == 0 && q.waiting == 0 && q.first == nil && q.last == nil
		q.mu.Unlock()
		if !idle {
			return false
		}
	}
	return e.swapping.Load() == 0
}

// CachedDenials is how many keys the cache holds.
func (e *Engine) CachedDenials() (n int) {
	for i := range e.denials.blocks {
		block := e.denials.blocks[i].Load()
		if block == nil {
			continue
		}
		for j := range block {
			for k := range block[j].slots {
				if block[j].slots[k].Load() != nil {
					n++
				}
			}
		}
	}
	return n
}
