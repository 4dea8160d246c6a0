// Package simulate runs a policy on calls of simulated clients. The clients react to denials, and
// several processes with different clocks can decide.
//
//	stream := simulate.Poisson(simulate.Shape{Requests: 5500, Length: 2 * time.Hour, Clients: 1, Seed: 1})
//	run, err := simulate.New(policy, stream, simulate.Options{Reaction: simulate.Wait})
//	for call, err := range run.Calls() {
//		... call.At, call.Result ...
//	}
//	outcome := run.Outcome()
//
// Each decision is one Policy.Step on the bytes that a store would hold. Every simulation is
// deterministic: equal arguments give equal calls.
package simulate
