// Package replay runs past requests through policies, side by side, and counts what each
// policy would have done.
//
//	r := replay.New(policies...)
//	for ... { err := r.Add(at, key) }
//	report := r.Report(10)
//
// Requests are added in the order of time. Each decision is one Policy.Step on the bytes that
// a store would hold, so the counts show what the policy would enforce.
//
// Memory grows with the number of keys, not of requests. A key costs its own bytes once, and
// under each policy its state and a record of the admissions in the last period. The record
// makes the largest number of admissions in any period exact. It takes a byte for each second
// with up to 4 admitted units, 2 bytes for up to 31 units, and up to 7 bytes for each time in
// a log with fractions of seconds. A key and policy cost 160 bytes in all for keys that come
// rarely, and 240 bytes if a key is admitted in every second of a minute's limit. With longer
// periods a busy key costs more: 5 kB for an hour. A bitmap of the busy seconds of an hour
// alone takes 450 bytes, and each of them may count for a later period.
package replay
