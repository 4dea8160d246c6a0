// Package benchmarks compares sluice with other rate limiters, in the same run. It is a
// module of its own, so that users of sluice do not depend on those limiters.
//
//	go test -bench Step -count 5 .      one step, and golang.org/x/time/rate
//	go test -bench Memory -count 5 .    limiters in memory, and floors
//	go test -bench Replay -count 5 .    lines of a log per second, and goaccess
//
// scripts/bench.sh compares the figures with goals, and writes README.md.
package benchmarks
