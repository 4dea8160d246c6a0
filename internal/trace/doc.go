// Package trace parses, runs, compares and writes traces. Package sluicetest documents their format, and runs them as tests. This
// package does not import package testing, so programs can use it.
package trace
