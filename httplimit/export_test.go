package httplimit

// Gates is how many hosts the transport remembers.
func (t *Transport) Gates() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.gates)
}
