package httplimit

// Queues returns the number of queues.
func (t *Transport) Queues() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queues)
}

// Groups returns the number of groups of denied requests.
func (t *Transport) Groups() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.groups)
}

// Pending returns how many requests wait, have a slot or are in flight.
func (t *Transport) Pending() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range t.queues {
		n += q.active + q.waiting.Len() + q.denied.Len() + int(q.slots)
	}
	return n
}
