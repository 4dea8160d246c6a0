// Package compose combines policies into one policy, and reads policies from their specs.
//
// A policy is an algorithm with a limit and options. A spec is a policy as a line of text, such as
// "gcra 100/m burst=20"; [ParsePolicy] reads it. A [Stack] applies several policies to one key. [All] makes
// it, and so does the spec "all(gcra 10/s; fixedwindow 1000/d)".
//
// The method Bound returns the most units that a policy admits for one key in an interval. It is often above
// the limit: gcra 1000/h admits up to 2000 units in an hour. docs/policies.md compares the algorithms.
package compose
