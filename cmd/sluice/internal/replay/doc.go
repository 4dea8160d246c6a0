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
// last period, from which the most in any one period is exact. That record is a byte
// for each second in which up to 4 units were admitted, 2 for up to 31, and up to 7
// for each instant of a log with finer stamps. In all a key and policy cost 160 bytes
// where keys come now and then, and 240 where every key is admitted in every second
// under a limit by the minute. Under longer periods a busy key costs more, 5 kB by the
// hour: which seconds of an hour were busy cannot be said in less than 450 bytes, and
// any of them may decide the most in a period that is yet to end.
package replay
