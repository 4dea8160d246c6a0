package storage

import (
	"math"
	"time"
)

// Lifetime returns how long a store whose clock reads now must keep the new record: TTL, or the
// time from now to Until if that is longer. 0 means for ever: the TTL is 0. Stores that compute the
// expiry in Go use it.
func (s *Swap) Lifetime(now time.Time) time.Duration {
	left := s.Until.Sub(now)
	if s.TTL == 0 || left == math.MaxInt64 { // Sub saturates, so Until may be even later
		return 0
	}
	return max(s.TTL, left)
}

// FarUntil is the result of [Swap.UntilUnix] for a time that is too late to be represented.
const FarUntil = math.MaxInt64

// UntilUnix returns Until as a number of units since 1970, rounded up. A second must be a whole
// number of units. For an Until before 1970, such as the zero Until, it returns 0. Stores whose
// server computes the expiry use it. Such a server may compute in doubles, so UntilUnix returns
// FarUntil for a number above 2^53. The store then keeps the record for ever.
func (s *Swap) UntilUnix(unit time.Duration) int64 {
	sec, perSecond := s.Until.Unix(), int64(time.Second/unit)
	switch {
	case sec < 0:
		return 0
	case sec >= 1<<53/perSecond:
		return FarUntil
	}
	return sec*perSecond + (int64(s.Until.Nanosecond())+int64(unit)-1)/int64(unit)
}
