package storage

import "math/rand/v2"

// Version identifies one write. No stored record has the version zero. Versions are 64-bit
// random numbers without an order.
type Version uint64

// NewVersion returns a random version for a new write. It is never zero. Records written by one
// swap may share a version, but two swaps must not.
//
// Two writes get the same version with a probability of 2^-64. This does harm only if a swap
// expects the record of one write and finds the record of the other under the same key.
func NewVersion() Version {
	for {
		if v := Version(rand.Uint64()); v != 0 {
			return v
		}
	}
}
