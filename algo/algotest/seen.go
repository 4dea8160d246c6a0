package algotest

import "encoding/binary"

// once reports whether it is the first time that it is asked this of a state at
// an instant, under the limit that is being searched.
func (h *hunt) once(state []byte, t int64) bool { return h.known.add(state, t) }

// seen is the states that have been seen at an instant.
type seen map[string]struct{}

// add reports whether the state had not been seen at t.
func (s seen) add(state []byte, t int64) bool {
	var room [128]byte
	key := append(binary.BigEndian.AppendUint64(room[:0], uint64(t)), state...)
	if _, ok := s[string(key)]; ok {
		return false
	}
	s[string(key)] = struct{}{}
	return true
}
