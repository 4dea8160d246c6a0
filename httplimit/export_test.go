package httplimit

// Gates is how many hosts the transport remembers.
func (t *Transport) Gates() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.gates)
}

// Underway is how many requests are at the gates: waiting, about to be sent, or sent.
func (t *Transport) Underway() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range t.gates {
		g.mu.Lock()
		n += g.inside + g.line.Len() + int(g.boarding)
		g.mu.Unlock()
	}
	return n
}
