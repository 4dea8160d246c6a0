package algo

import (
	"math"
	"time"
)

// Never is the RetryAfter of a cost that cannot be waited for: it is larger than
// the capacity, the wait is longer than 2^63-1 ns, or the options are not valid.
const Never time.Duration = math.MaxInt64

// Result says what one step decided, and why. Every field is meaningful on
// allow and on deny, all of it under the present options, and always
//
//	Available + Refilled - Paid == Remaining
//
// Remaining is negative while there is debt: after a Charge, after the limit was
// lowered below what was already used, or when gcra is read by a clock that is
// behind.
type Result struct {
	Allowed    bool
	Limit      int64         // capacity: the most units that one step could ever take
	Cost       int64         // units asked for
	Available  int64         // units available as the state last stood (a key never seen: 0)
	Refilled   int64         // units regained since then (a key never seen: Limit)
	Paid       int64         // units taken: Cost, or 0 when denied; a refund takes a negative number
	Remaining  int64         // units left now
	RetryAfter time.Duration // 0 when allowed; how long until the same cost is allowed; Never if it cannot be
	NextRefill time.Duration // until Remaining next grows; 0 when nothing is missing
	ResetAfter time.Duration // until the state is indistinguishable from a key never seen
	Fresh      bool          // the key had never been seen, or its state had lapsed
	Skew       time.Duration // how far the state is ahead of now, because clocks disagree; else 0
	Part       int           // in a composed policy, the part that bound: its index from 0
}
