package algotest

import "encoding/binary"

// visited is a set of pairs of a state and an instant.
type visited map[string]struct{}

// add reports whether the pair is new.
func (v visited) add(state []byte, t int64) bool {
	var array [128]byte
	key := append(binary.BigEndian.AppendUint64(array[:0], uint64(t)), state...)
	if _, ok := v[string(key)]; ok {
		return false
	}
	v[string(key)] = struct{}{}
	return true
}
