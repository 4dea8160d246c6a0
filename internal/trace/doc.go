// Package trace is the golden-file format of rate limiting: what happened on the
// left of an arrow, what was decided on the right.
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
// # Goals
//
//   - A person reads it as the specification of an algorithm, and edits it by hand.
//   - The answers can be made anew by machine without touching anything else.
//   - Several policies, or one changed on live keys, stand side by side in one file.
//
// # Non-goals
//
// Traces are short and written on purpose: 16 MiB at most, held in memory. They
// have no variables, loops, includes or quoting; what cannot be said in them is a
// test in Go. Access logs are not traces.
//
// # Grammar
//
// A file is lines, a line is words between white space, of characters that can be
// shown. A word that begins with # begins a comment, up to the end of the line.
//
//	trace  = { [ policy | show | event ] [ comment ] newline }
//	policy = "policy" SPEC                                   (compose.ParsePolicy)
//	show   = "show" column { column }                        (before the first event)
//	event  = "@"OFFSET KEY COST [ "->" [ answer { "|" answer } ] ]
//	COST   = N | "peek:"N | "refund:"N | "charge:"N          (0: the policy's own cost)
//	answer = a word for each column shown; an answer for each policy
//	column = "verdict" | "left" | "retry" | "reset" | "available" | "refilled" | "paid"
//	       | "next" | "limit" | "cost" | "fresh" | "skew" | "part"
//
// OFFSET counts from 2000-01-01T00:00:00Z in the notation of [time.ParseDuration],
// in any order: clocks step back. The columns are the fields of [algo.Result] in the
// words of a reader (left is Remaining, retry is RetryAfter); those shown are verdict,
// left, retry and reset, unless there is a show line.
//
// Policy lines before the first event are one column of answers each, every one
// with its own states. Policy lines after an event replace the policies from
// there on, the first of them the first policy and so on, and keep the states.
//
// A comment that begins with the words #at key cost is a heading: when answers are
// written, the names of the columns are written above them.
//
// # Errors
//
// Whatever is not in the grammar is an error that names file, line, the word and
// what would be accepted there. The first error ends the reading; nothing is
// skipped or guessed. A policy that cannot read the state another one left
// (an algorithm was replaced by another) is an error of the event that meets it.
package trace
