package algo

import (
	"errors"
	"time"
)

// Errors of a policy. They mean that nothing was decided. They never mean a denial.
var (
	// ErrState is returned if the bytes are not a state of this policy: they are
	// damaged, or another algorithm wrote them. To change the algorithm of a key,
	// rename the key or reset it.
	ErrState = errors.New("algo: not a state of this policy")
	// ErrStateVersion is returned if a later version of the algorithm wrote the
	// bytes, in a format that this version does not know.
	ErrStateVersion = errors.New("algo: state has a newer format")
	// ErrCost is returned if the cost is negative. To give units back, use Refund.
	ErrCost = errors.New("algo: cost must not be negative")
)

// Policy is an algorithm with its options. Its methods are pure functions of encoded
// state. A Policy has no mutable state, so any number of goroutines may use it.
//
// A state is opaque bytes. Empty bytes are the state of a new key. Once its Result.ResetAfter has
// passed, a state means the same as empty bytes, so a store may drop it.
//
// The methods neither modify nor retain state. They append the next state to dst, which
// must not overlap state. If nothing changed (a denial, or a refund to a full key), they
// append the bytes of state. So compare the bytes to learn whether there is
// anything to store.
//
// If cost is 0, the methods use the cost in the policy's options, which is 1 unit by
// default. A cost of 0 is never free: to look without paying, use Peek.
//
// The methods return ErrCost if cost is negative. They return ErrState or
// ErrStateVersion if state is not a state of the policy; they never reset it. With an
// error they return dst as it was.
type Policy interface {
	// Step decides a request of cost units at now. It takes all of the units or none.
	Step(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)
	// Peek returns the Result that Step would return, but pays nothing: Paid is 0.
	Peek(state []byte, now time.Time, cost int64) (Result, error)
	// Refund gives cost units back, at most until the key is full. Paid is the negative number of
	// units that the key regained. Refund first brings the state forward to now, as Step does. If
	// now is before the time in the state, Refund uses the time in the state, so a refund by a
	// clock that is behind is not lost. While some units are used, the new state keeps that time.
	// Otherwise a clock that is behind could refill the same units twice.
	Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)
	// Charge takes cost units, even if fewer are left. The missing units become a debt: Remaining
	// is negative, and refills pay the debt first. The Result is always Allowed. If now is before
	// the time in the state, Charge uses the time in the state.
	Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)

	// Bound returns the most units that Step can allow for one key in any half-open interval of
	// that length. Refunds are subtracted. Bound holds while clocks do not step back. A refund
	// subtracts the units that it regained, which is -Paid. There are two exceptions, in which a
	// refund subtracts its cost: movingwindow, where units can count in part, and policies of
	// several parts, where a part can regain more than Paid shows. A bound above the largest int64
	// is returned as math.MaxInt64, which then promises nothing.
	Bound(interval time.Duration) int64
	// Limit returns the sustained rate. A composed policy returns that of its first part.
	Limit() Limit
	// String returns the policy's spec, in the form that compose.ParsePolicy reads.
	String() string
}

// MaxInstant is the last instant that the algorithms distinguish, in nanoseconds
// since the Unix epoch: 2^62-1, in February 2116.
const MaxInstant = 1<<62 - 1

// Instant returns t in whole nanoseconds since the Unix epoch. It returns 0 for times before 1970,
// and MaxInstant for times after MaxInstant.
func Instant(t time.Time) int64 {
	const maxSec = MaxInstant / 1_000_000_000
	sec := min(max(t.Unix(), -1), maxSec+1)
	return min(max(sec*1e9+int64(t.Nanosecond()), 0), MaxInstant)
}
