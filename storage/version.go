package storage

import "math/rand/v2"

// Version names one write. Zero is the version of nothing: no record has it.
// All 64 bits count, and their order means nothing.
type Version uint64

// NewVersion draws the version of a new write, never zero. Records written by one swap may
// share it; two swaps must not.
//
// Two writers draw the same version once in 2^64: a swap could then apply to a
// record that it never saw only if, besides, that record had replaced the very one it
// did see.
func NewVersion() Version {
	for {
		if v := Version(rand.Uint64()); v != 0 {
			return v
		}
	}
}
