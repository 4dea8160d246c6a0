package algotest

import "slices"

// scratch is memory that one point after the other uses: a search asks so many
// questions that to allocate for each would take most of its time.
type scratch struct {
	point point
	block []byte
}

// room is for an answer to be appended to, which is lost with the next one
// unless it is kept.
func (s *scratch) room(more int) []byte {
	size := 192 + more
	if cap(s.block)-len(s.block) < size {
		s.block = make([]byte, 0, 64*size)
	}
	n := len(s.block)
	return s.block[n : n : n+size]
}

// keep leaves what was appended to a room where it is until the next point, with
// nothing behind it; of no bytes it makes nil, as a key never seen has. An answer
// that was too large for its room lies elsewhere.
func (s *scratch) keep(answer []byte) []byte {
	if len(answer) == 0 {
		return nil
	}
	s.block = s.block[:min(len(s.block)+len(answer), cap(s.block))]
	return slices.Clip(answer)
}
