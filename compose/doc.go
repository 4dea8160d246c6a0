// Package compose combines policies into one policy, and reads policies from their specs.
//
// A spec is a policy as a line of text, such as "gcra 100/m burst=20"; [ParsePolicy] reads it. A [Stack]
// applies several policies to one key, and a [Penalty] denies a key for a time after a denial.
//
// The method Bound returns the most units that a policy admits for one key in an interval. It is often above
// the limit: gcra 1000/h admits up to 2000 units in an hour.
package compose
