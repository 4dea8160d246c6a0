package algo

import (
	"errors"
	"time"
)

// Errors of a policy. They mean that nothing was decided, never a denial.
var (
	// ErrState is returned when the bytes are no state of this policy: damaged,
	// or written by another algorithm. A key that changes its algorithm needs a
	// new name, or a reset.
	ErrState = errors.New("algo: not a state of this policy")
	// ErrStateVersion is returned when the bytes were written by a later
	// version of the algorithm, in a format that this one does not know.
	ErrStateVersion = errors.New("algo: state has a newer format")
	// ErrCost is returned for a negative cost. Units are given back by Refund.
	ErrCost = errors.New("algo: cost must not be negative")
)

// Policy is an algorithm with its options bound: a pure step over encoded
// state. It holds no mutable state and may be used from any number of
// goroutines.
//
// State is opaque. No bytes at all stand for a key never seen, and so does
// every state whose Result.ResetAfter has passed: a store may drop it. The
// methods never modify or retain state; the next state is appended to dst,
// which must not overlap it. Where nothing changed (a denial, a refund of a
// full key) the very same bytes are appended, so comparing them tells whether
// there is anything to store.
//
// A cost of 0 stands for the cost in the policy's options, by default 1 unit;
// to look without paying there is Peek. A negative cost is refused with
// ErrCost. Bytes that are no state of the policy are refused with ErrState or
// ErrStateVersion, never silently reset. On an error dst is returned as it was.
type Policy interface {
	// Step decides a request of cost units at now: it takes all of them or
	// none.
	Step(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)
	// Peek answers what Step would, but pays nothing: Paid is 0.
	Peek(state []byte, now time.Time, cost int64) (Result, error)
	// Refund gives cost units back. Units above full are lost; Paid is minus
	// what was regained. The state is brought forward to now first, as by a step,
	// and as long as anything is used it keeps that time: what had come back by now
	// must not come back once more to a clock that is behind. A now before the
	// state's own time counts as that time, so a clock that is behind loses nothing.
	Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)
	// Charge takes cost units unconditionally. It may leave a debt, a negative
	// Remaining, which is refilled first. Like a refund it is always Allowed, and by
	// a clock that is behind it counts at the state's own time.
	Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)

	// Bound is a promise: Step never admits more units, less what Refund gave
	// back, than Bound under one key in any half-open interval of that length,
	// wherever it begins, while clocks do not step back. What was given back is
	// minus Paid; in a window, where units may count in part, and in a composed
	// policy, whose parts may have regained more than Paid tells, it is the cost.
	// A bound above the largest int64 is told as math.MaxInt64, which then promises
	// nothing.
	Bound(interval time.Duration) int64
	// Limit is the sustained rate; of a composed policy, that of its first
	// part.
	Limit() Limit
	// String is the policy's spec, as compose.ParsePolicy reads it.
	String() string
}
