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

// ReadItems reads a field: the names of its items, and their parameters that are
// Integers.
func ReadItems(lines []string) (names []string, integers []map[string]int64, ok bool) {
	items, ok := readItems(lines)
	for _, item := range items {
		found := make(map[string]int64)
		for key := range item.params {
			if n, ok := item.integer(key); ok {
				found[key] = n
			}
		}
		names, integers = append(names, item.name), append(integers, found)
	}
	return names, integers, ok
}
