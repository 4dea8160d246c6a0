//go:build race

package memstore_test

// scale divides the numbers of the long tests: what they measure, the race
// detector only slows down.
const scale = 8
