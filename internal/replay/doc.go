// Package replay runs requests of the past through policies, side by side, and
// counts what each of them would have done.
//
//	r := replay.New(policies...)
//	for ... { err := r.Add(at, key) }
//	report := r.Report(10)
//
// Requests are added in the order of time. Every decision is one Policy.Step on
// the bytes that a store would hold, so that what is counted here is what would
// be enforced there.
//
// Memory grows with the keys, not with the requests: a key costs its bytes
// once, and under each policy its state and a compact record of what was
// admitted within the last period, from which the most in any one period is
// exact.
package replay
