package algo

import (
	"math"
	"time"
)

// Never is the RetryAfter of a request that will never be allowed, because its cost exceeds the capacity
// or the options are not valid.
const Never time.Duration = math.MaxInt64

// Result is one decision. Every field is set, also on a denial, under the current options. Durations are whole microseconds,
// rounded up. Always
//
//	Available + Refilled - Paid == Remaining
//
// Remaining is negative if the key has a debt: a Charge took more than was left, the capacity fell below the units in use, or, in
// gcra, the clock is behind the state.
type Result struct {
	Allowed    bool
	Fresh      bool          // the key was new, or its state had expired
	Part       int32         // in a compose.Stack, the index of the part that decided
	Limit      int64         // capacity (not the rate): the most units that one request can take
	Cost       int64         // units requested
	Available  int64         // units available when the state was last written; 0 for a new key
	Refilled   int64         // units refilled since then; Limit for a new key
	Paid       int64         // units charged: Cost, or 0 if denied; negative for a refund
	Remaining  int64         // units left after this decision
	RetryAfter time.Duration // time until the same cost is allowed; 0 if it was, or Never
	NextRefill time.Duration // time until Remaining next grows; 0 if the key is full
	ResetAfter time.Duration // time until the key is like a new key; never negative
	Skew       time.Duration // how far the state's time is ahead of now, because clocks disagree or one stepped back
}
