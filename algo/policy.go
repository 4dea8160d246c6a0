package algo

import (
	"errors"
	"time"
)

// Errors of a policy. They mean that nothing was decided. They never mean a denial.
var (
	// ErrState is returned if the bytes are not a state of this policy: they are damaged, or another
	// algorithm wrote them.
	ErrState = errors.New("algo: not a state of this policy")
	// ErrStateVersion is returned if a later version of the algorithm wrote the
	// bytes, in a format that this version does not know.
	ErrStateVersion = errors.New("algo: state has a newer format")
	// ErrCost is returned if the cost is below 1. To give units back, use Refund. A
	// sluice.Limiter also returns it if the number of calls is below 1.
	ErrCost = errors.New("algo: cost must be at least 1")
)

// Policy is an algorithm with its options. Its methods are pure functions of encoded
// state. A Policy has no mutable state, so any number of goroutines may use it.
//
// A state is opaque bytes. Empty bytes are the state of a new key. A key is full if all its units
// are available, as they are for a new key. A state is returned with a Result. When the ResetAfter
// of that Result has passed, the state means the same as empty bytes, so a store may drop it.
//
// The methods neither modify nor retain state. They append the next state to dst, which must not
// overlap state. If nothing changed (a denial, or a refund to a full key), they append the bytes of
// state. So compare the bytes to learn whether there is anything to store. A denial of the four algorithms changes nothing.
// A policy of your own can change its state with a denial, for example to count denials. A limiter then stores the
// state for as long as ResetAfter says, and charges nothing.
//
// If the clock of its store has stepped back by more than 10 s, a limiter replaces a state by that of a new key, and charges the
// units in use to it. These are Limit - Remaining, as a Peek at the state's own time (now plus Skew) reports them. If a
// state of your policy holds more than units in use, such as a ban, let Skew be 0. Then the limiter keeps the state as it is.
//
// The methods return ErrCost if cost is below 1. They return ErrState or ErrStateVersion if state is
// not a state of the policy; they never reset it. With an error they return dst as it was.
type Policy interface {
	// Step decides a request of cost units at now. It charges all of the units or none.
	Step(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)
	// Peek decides like Step, but charges nothing. So Paid is 0, and Remaining is what is left
	// without the charge.
	Peek(state []byte, now time.Time, cost int64) (Result, error)
	// Refund gives cost units back, at most until the key is full. Paid is minus the number of
	// units that the key regained. Like Step, Refund first adds the units that were refilled until
	// now. If now is before the time in the state, Refund refills nothing. The next state keeps
	// that time, because the same units could otherwise be refilled twice. If the refund fills the
	// key, the next state may be empty. A limiter deletes the key if ResetAfter is 0.
	Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)
	// Charge takes cost units, even if fewer are left. The missing units become a debt: Remaining
	// is negative, and refills pay the debt first. The Result is always Allowed. If now is before
	// the time in the state, Charge uses the time in the state.
	Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r Result, err error)

	// Bound returns the most units that Step can allow for one key in any half-open interval of
	// that length. Units that are refunded in the interval can be allowed in addition. The bound
	// holds while clocks make no steps. A bound above the largest int64 is returned as
	// math.MaxInt64, which promises nothing.
	//
	// A refund adds the units that the key regained (-Paid) to the bound. In movingwindow and in a
	// compose.Stack it adds its whole cost: movingwindow can weight a unit by a fraction, and a part
	// of a Stack can regain more than Paid shows.
	Bound(interval time.Duration) int64
	// Limit returns the sustained rate. A compose.Stack returns that of its first part.
	Limit() Limit
	// String returns the policy's spec, in the form that compose.ParsePolicy reads.
	String() string
}

// MaxInstant is the last instant that the algorithms distinguish, in microseconds since the Unix epoch: 2^52-1, in
// September 2112.
const MaxInstant = 1<<52 - 1

// Instant returns t in whole microseconds since the Unix epoch, rounded down. It returns 0 for times before 1970, and
// MaxInstant for times after MaxInstant.
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

// Microseconds returns the number of microseconds that the instants of an interval can span at most: two times that are
// less than d apart differ by up to ceil((d-1)/1us) microseconds after they are rounded down. d must be at least 1.
func Microseconds(d time.Duration) int64 {
	return int64((d-1)/time.Microsecond) + min(1, int64((d-1)%time.Microsecond))
}
