// Package sluicetest helps to test programs that use sluice. [Traces] runs tests that are text files. [Store] is a store whose
// outages a test begins and ends.
//
// # Traces
//
// A trace is the golden file of a policy. It has events left of arrows, and the decisions right of them:
//
//	# A full bucket gives its burst at once, then one token every 100ms.
//	policy tokenbucket 10/s burst=3
//
//	#at     key cost    verdict left retry reset
//	@0s     a   1    -> ok      2    0s    100ms
//	@0s     a   2    -> ok      0    0s    300ms
//	@0s     a   1    -> deny    0    100ms 300ms
//	@99ms   a   1    -> deny    0    1ms   201ms
//	@100ms  a   4    -> deny    1    never 200ms
//
// Write the events, and let [Traces] write the decisions. "sluice replay --check" runs traces too. A trace has no release and no
// renewal of held units.
//
// # Grammar of the format
//
// A file has at most 16 MiB. Words have printable characters only, and are separated by white space. A word that begins with #
// begins a comment, which ends with the line. Anything outside of the grammar is an error.
//
//	trace  = { [ policy | show | event ] [ comment ] newline }
//	policy = "policy" SPEC
//	show   = "show" column { column }                        (before the first event)
//	event  = "@"OFFSET KEY COST [ "->" [ answer { "|" answer } ] ]
//	COST   = N | "peek:"N | "refund:"N | "charge:"N          (0: the cost= of the policy line, or else 1)
//	answer = a word for each shown column; an answer for each policy
//	column = "verdict" | "left" | "retry" | "reset" | "available" | "refilled" | "paid"
//	       | "next" | "limit" | "cost" | "fresh" | "skew" | "part"
//
// SPEC is a policy; see [github.com/sluice-go/sluice/compose.ParsePolicy]. Its last word can be cost=N, the units that a request
// costs.
//
// OFFSET is the time since 2000-01-01T00:00:00Z in the notation of [time.ParseDuration]. It may step back, as clocks do. Times
// are from 1970 to September 2112.
//
// The columns are fields of [github.com/sluice-go/sluice/algo.Result]: verdict is Allowed (ok or deny), left is Remaining, retry
// is RetryAfter, reset is ResetAfter, and next is NextRefill. The others have the names of their fields. fresh is yes or no. The
// default is verdict, left, retry and reset. When answers are written, each comment that begins with the words #at key cost gets
// these names.
//
// Each policy line before the first event adds a column of answers, with its own states. Later ones replace these policies in
// order, from there on. The states stay, so the new policy must be of the same kind; see
// [github.com/sluice-go/sluice/compose.Kind].
package sluicetest
