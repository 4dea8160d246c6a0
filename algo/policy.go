package algo

import (
	"errors"
	"time"
)

// Errors of a policy. An error is never a denial.
var (
	// ErrState means that the bytes are not a state of this policy: they are damaged, or another
	// algorithm wrote them.
	ErrState = errors.New("algo: not a state of this policy")
	// ErrStateVersion means that a later version of the algorithm wrote the bytes, in a newer format.
	ErrStateVersion = errors.New("algo: state has a newer format")
	// ErrCost means that the cost is below 1, or the number of calls for a sluice.Limiter.
	ErrCost = errors.New("algo: cost must be at least 1")
)

// Policy is an algorithm with its options. Its methods are pure functions of an encoded state, and safe for
// concurrent use.
//
// A state is opaque bytes. Empty bytes are the state of a new key, which is full: all its units are available.
// When the ResetAfter of a Result has passed, a store may drop the state that came with it.
//
// The methods neither modify nor retain state. They append the next state to dst, which must not overlap state. If the next state has
// the same bytes, there is nothing to store. Your own policy may change its state with a denial, for example to count denials. A
// limiter then stores it until ResetAfter, and charges nothing.
//
// If the clock of the store has stepped back by more than 10 s, a limiter replaces the state by that of a
// new key, and charges the units in use to it. It finds them by a Peek at the state's own time, which is now
// plus Skew: they are Limit - Remaining. If a state of your policy holds more, such as a ban, return a Skew
// of 0. The limiter then keeps the state.
//
// The methods return ErrCost if cost is below 1, and ErrState or ErrStateVersion if state is not a state
// of the policy. With an error they return dst as it was.
type Policy interface {
	// Step decides a request of cost units at now, and charges all of them or none.
	Step(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)
	// Peek decides like Step, but charges nothing: Paid is 0, and Remaining is not reduced.
	Peek(state []byte, now time.Time, cost int64) (Result, error)
	// Refund gives cost units back, at most until the key is full. Paid is minus the units that the
	// key regained. Like Step, Refund first refills until now. If now is before the time in the state,
	// Refund keeps that time. A refund of a full key keeps the state. If another one fills the key, the
	// next state may be empty, and a limiter deletes the key if ResetAfter is 0.
	Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)
	// Charge takes cost units, even if that leaves a debt: Remaining is negative, and refills pay the
	// debt first. The Result is always Allowed. If now is before the time in the state, Charge uses
	// that time.
	Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)

	// Bound returns the most units that Step can allow one key in any half-open interval of that
	// length (see Microseconds), while clocks make no steps. math.MaxInt64 promises nothing: the bound may be larger.
	//
	// A refund in the interval adds the units that the key regained (-Paid) to the bound. In
	// movingwindow and in a compose.Stack it adds its whole cost.
	Bound(interval time.Duration) int64
	// Limit returns the sustained rate; for a compose.Stack, that of its first part.
	Limit() Limit
	// String returns the spec, as compose.ParsePolicy reads it. Compare policies by it, not by ==. Its first word is a part of stored
	// keys; see compose.Kind.
	String() string
}

// Holder is a policy whose units are held for a time and then given back, such as one of package inflight. Limit().Period is how long
// they are held at least. A limiter gives them back by Reservation.Release and Settle, and does not cache its denials.
type Holder interface {
	Policy
	// Held returns the policy for the units that a Step has charged. taken is the now of that Step, or of the last renewal, plus
	// the Skew of its Result. The returned policy has the states of the Holder. Its Refund gives back only such units. Its Step
	// renews them: it holds them as if they were charged at its own now, and charges nothing. If they have come back already,
	// Refund changes nothing, and Step denies with a RetryAfter of Never.
	Held(taken time.Time) Policy
}

// MaxInstant is the last instant that the algorithms distinguish: 2^52-1 microseconds since the Unix epoch, in
// September 2112.
const MaxInstant = 1<<52 - 1

// Instant returns t in microseconds since the Unix epoch, rounded down. Times outside the range become 0 or
// MaxInstant.
func Instant(t time.Time) int64 {
	const maxSec = MaxInstant / 1_000_000
	sec := t.Unix()
	switch {
	case sec < 0:
		return 0
	case sec > maxSec:
		return MaxInstant
	}
	return min(sec*1e6+int64(t.Nanosecond())/1e3, MaxInstant)
}

// Microseconds returns ceil((d-1ns)/1us). Two times that are less than d apart differ by at most so many
// microseconds after they are rounded down. d must be at least 1ns.
func Microseconds(d time.Duration) int64 {
	return int64((d-1)/time.Microsecond) + min(1, int64((d-1)%time.Microsecond))
}
