package httplimit

// Queues returns how many hosts the transport remembers.
func (t *Transport) Queues() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queues)
}

// Groups returns how many denials the transport remembers.
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
		n += q.active + len(q.fresh) + len(q.denied) + int(q.slots)
	}
	return n
}
