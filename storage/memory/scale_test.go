//go:build !race

package memory_test

// scale divides the numbers of the long tests.
const scale = 1
