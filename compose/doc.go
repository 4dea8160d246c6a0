// Package compose combines policies into one policy, and reads policies from their specs.
//
// A policy is an algorithm with a limit and options. [ParsePolicy] reads it from its spec, a
// line of text such as "gcra 100/m burst=20". A [Stack] applies several policies to one key; [All] makes it,
// and so does the spec "all(gcra 10/s; fixedwindow 1000/d)".
//
// The Bound method of a policy returns the most units that it admits for one key in any interval of
// a given length. The bound is often above the limit, because a burst is added to the rate, or
// because the interval covers parts of two windows. For example, gcra 1000/h admits up to 2000
// units in an hour. The command sluice check prints these numbers for each rule of a configuration
// file, and docs/policies.md compares the algorithms.
//
// Like the algorithms, this package is pure: it imports only the standard library and them, and it starts, waits for and
// reads nothing. Package [github.com/sluice-go/sluice] applies policies to the calls of a program.
package compose
