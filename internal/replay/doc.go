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
// Memory does not grow with the requests but with the keys: a key costs its bytes
// once, and under each policy its state and a record of what was admitted within the
// last period, from which the most in any one period is exact: some 6 bytes for each
// distinct instant of it. At a granularity of seconds, as logs have it, that is at
// most 360 bytes for a limit by the minute, and 20 kB for a key that was busy in every
// second of a limit by the hour; typical is 150 bytes in all for a key and policy.
package replay
