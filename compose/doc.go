// Package compose combines policies into one policy, and reads policies from specs, which are lines of text such as "gcra 100/m
// burst=20".
package compose
