package algo

import (
	"math"
	"time"
)

// Never is the RetryAfter of a request that will never be allowed: its cost exceeds the
// capacity, or the options are not valid.
const Never time.Duration = math.MaxInt64

// Result is the result of one decision. Every field has a meaning whether the request
// is allowed or denied. All fields are computed under the current options. Durations are whole
// microseconds, rounded up. Always
//
//	Available + Refilled - Paid == Remaining
//
// Remaining is negative if the key has a debt. A debt has three causes. A Charge took more units than were
// left. Or the options have changed, and more units are in use than the new capacity. Or, in gcra, the
// clock is behind the state.
type Result struct {
	Allowed    bool
	Fresh      bool          // the key was new, or its state had expired
	Part       int32         // in a compose.Stack, the index of the part that decided, from 0
	Limit      int64         // capacity (not the rate): the most units that one request can ever take
	Cost       int64         // units requested
	Available  int64         // units available when the state was last written; 0 for a new key: see Refilled
	Refilled   int64         // units refilled since then; for a new key all units, which are Limit
	Paid       int64         // units charged: Cost, or 0 if denied; negative for a refund
	Remaining  int64         // units left after this decision
	RetryAfter time.Duration // time until the same cost is allowed: 0 if it was allowed, Never if it never will be
	NextRefill time.Duration // time until Remaining next grows; 0 if nothing is missing
	ResetAfter time.Duration // time until the state is equivalent to no state; never negative
	Skew       time.Duration // how far the state's time is ahead of now: clocks disagree, or one has stepped back; otherwise 0
}
