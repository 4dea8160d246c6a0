package algotest

import "slices"

// buffers is memory that all points use, one after the other. An allocation for every call
// would take most of the time of a search.
type buffers struct {
	point point
	block []byte
}

// dst returns an empty slice with a capacity of at least 192+more. The next call of dst
// returns the same memory, unless retain is called first.
func (b *buffers) dst(more int) []byte {
	size := 192 + more
	if cap(b.block)-len(b.block) < size {
		b.block = make([]byte, 0, 64*size)
	}
	n := len(b.block)
	return b.block[n : n : n+size]
}

// retain protects the bytes that were appended to dst until the next point, and returns
// them without spare capacity. It returns nil for empty bytes.
func (b *buffers) retain(state []byte) []byte {
	if len(state) == 0 {
		return nil
	}
	b.block = b.block[:min(len(b.block)+len(state), cap(b.block))]
	return slices.Clip(state)
}
