// Package backtest runs past requests through policies, side by side, and counts what each
// policy would have done.
//
//	r := backtest.New(policies...)
//	for ... { err := r.Add(at, key) }
//	report := r.Report(10)
//
// Requests are added in the order of time. Each decision is one Policy.Step on the bytes that
// a store would hold, so the counts show what the policy would enforce.
//
// Memory grows with the number of keys, not of requests. A key costs its own bytes once, and
// under each policy its state and a record of the admissions in the last period. The record
// makes the largest number of admissions in any period exact. It takes 16 bytes, and up to twice
// as many, for each time at which the key was admitted.
package backtest
