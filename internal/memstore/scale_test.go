//go:build !race

package memstore_test

// scale divides the numbers of the long tests.
const scale = 1
