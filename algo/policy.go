package algo

import (
	"errors"
	"time"
)

// Errors of a policy. An error is never a denial.
var (
	// ErrState means that the bytes are damaged, or the state of another algorithm.
	ErrState = errors.New("algo: not a state of this policy")
	// ErrStateVersion means that a later version of the algorithm wrote the bytes.
	ErrStateVersion = errors.New("algo: state has a newer format")
	// ErrCost means that the cost, or the number of calls for a sluice.Limiter, is below 1.
	ErrCost = errors.New("algo: cost must be at least 1")
)

// Policy is an algorithm with its options. Its methods are pure functions of an encoded state, and safe for concurrent use.
//
// A state is opaque bytes. Empty bytes are a new key, whose units are all available. A store may drop a state when the ResetAfter
// of its Result has passed.
//
// The methods neither modify nor retain state. They append the next state to dst, which must not overlap state. The same bytes
// need not be stored. Your own policy may change its state with a denial, for example to count denials.
//
// If the clock of the store has stepped back by more than 10 s, a limiter charges the units in use to a new key. They are Limit -
// Remaining of a Peek at now plus Skew. If your state holds more, such as a ban, return a Skew of 0: the limiter then keeps it.
//
// The methods return ErrCost if cost is below 1, and ErrState or ErrStateVersion if they cannot read state. With an error they
// return dst as it was.
type Policy interface {
	// Step decides a request of cost units at now, and charges all of them or none.
	Step(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)
	// Peek decides like Step, but charges nothing: Paid is 0, and Remaining is not reduced.
	Peek(state []byte, now time.Time, cost int64) (Result, error)
	// Refund refills until now, and gives cost units back, at most until the key is full. Paid is minus the units that came back.
	// A later time in the state stays, and so does the state of a full key. If another refund fills the key, the next state may
	// be empty, and a limiter deletes the key if ResetAfter is 0.
	Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)
	// Charge takes cost units, even if that leaves a debt: Remaining is negative until refills have paid it. The Result is
	// Allowed. If now is before the time in the state, Charge uses that time.
	Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)

	// Bound returns the most units that Step can allow one key in any half-open interval of that length (see Microseconds), while
	// clocks make no steps. math.MaxInt64 promises nothing. A refund in the interval adds the units that came back (-Paid); in
	// movingwindow and in a compose.Stack it adds its whole cost.
	Bound(interval time.Duration) int64
	// Limit returns the sustained rate; for a compose.Stack, that of its first part.
	Limit() Limit
	// String returns the spec, as compose.ParsePolicy reads it. Compare policies by it, not by ==. Its first word is a part of
	// stored keys; see compose.Kind.
	String() string
}

// Holder is a policy whose units are held, such as one of package inflight, for at least Limit().Period. A limiter gives them
// back by Reservation.Release and Settle, and does not cache denials.
type Holder interface {
	Policy
	// Held returns a policy for units that a Step has charged, with the same states. taken is the now of that Step, or of the
	// last renewal, plus the Skew of its Result. Refund gives back only such units. Step renews them: it holds them as if they
	// were charged at its own now, and charges nothing. If they have come back, Refund changes nothing, and Step denies with
	// a RetryAfter of Never.
	Held(taken time.Time) Policy
}

// MaxInstant is the last instant that the algorithms distinguish, in September 2112.
const MaxInstant = 1<<52 - 1

// Instant returns t in microseconds since the Unix epoch, rounded down. Times outside the range become 0 (1970) or MaxInstant.
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

// Microseconds returns ceil((d-1ns)/1us): two times that are less than d apart differ by at most so many microseconds after they
// are rounded down. d must be at least 1ns.
func Microseconds(d time.Duration) int64 {
	return int64((d-1)/time.Microsecond) + min(1, int64((d-1)%time.Microsecond))
}
