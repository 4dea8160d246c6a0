// Package sluicetest has two helpers for tests of programs that use sluice. [Traces] runs text files that list requests and the
// decisions that they must get. [Store] is a store whose outages a test begins and ends.
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
// Write the events, and let [Traces] write the decisions: see SLUICE_UPDATE there. "sluice replay --check" runs traces too.
// A trace has no release and no renewal of held units.
//
// # Limits of the format
//
// Traces are short, at most 16 MiB. They have no variables, loops, includes or quoting.
//
// # Grammar of the format
//
// A file consists of lines, and a line of words that are separated by white space. Words have
// printable characters only. A word that begins with # begins a comment, which ends with the
// line.
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
// SPEC is a policy such as gcra 100/m burst=20; see [github.com/sluice-go/sluice/compose.ParsePolicy]. Its last word can be cost=N,
// the units that a request costs.
//
// OFFSET is the time since 2000-01-01T00:00:00Z in the notation of [time.ParseDuration]. Offsets may step back, as clocks do. An
// offset must lead to a time from 1970 to September 2112.
//
// The columns are fields of [github.com/sluice-go/sluice/algo.Result]: verdict is Allowed (ok or deny), left is Remaining, retry
// is RetryAfter, reset is ResetAfter, and next is NextRefill. The other columns have the names of their fields. fresh is yes or
// no. Without a show line, the columns are verdict, left, retry and reset.
//
// Each policy line before the first event adds a column of answers, with its own states. Policy
// lines after an event replace the policies from there on: the first line replaces the first
// policy, and so on. The states stay.
//
// A comment that begins with the words #at key cost is a heading. When answers are written,
// the names of the columns are written into each heading.
//
// # Errors in a trace
//
// The first text outside of the grammar is an error. A policy line after an event has an error if the new policy is of another
// kind, such as another algorithm; see [github.com/sluice-go/sluice/compose.Kind].
package sluicetest
