package httplimit

// Servers returns the number of servers that the Transport remembers.
func (t *Transport) Servers() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.servers)
}

// Pending returns how many requests have the turn or are in flight.
func (t *Transport) Pending() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.servers {
		n += len(s.turn) + int(s.inFlight)
	}
	return n
}
