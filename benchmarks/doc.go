// Package benchmarks measures sluice beside its peers, each in the same run. It
// is a module of its own, so that no peer enters the dependencies of a user.
//
//	go test -bench Step -count 5 .      one decision, beside golang.org/x/time/rate
//	go test -bench Memory -count 5 .    limiters in memory, beside their peers and floors
//	go test -bench Replay -count 5 .    lines of log a second, beside goaccess
//
// The figures beside their goals, and the page of them, are made by
// scripts/bench.sh.
package benchmarks
