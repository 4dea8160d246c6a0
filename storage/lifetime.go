package storage

import (
	"math"
	"time"
)

// Lifetime returns how long a store whose clock says now must keep the new record: for
// TTL, or until Until if that is later. 0 means for ever. It serves stores that compute
// the expiry themselves.
func (s *Swap) Lifetime(now time.Time) time.Duration {
	left := s.Until.Sub(now)
	if s.TTL == 0 || left == math.MaxInt64 { // Sub saturates: Until may be later still
		return 0
	}
	return max(s.TTL, left)
}

// FarUntil is what [Swap.UntilUnix] returns for a time that is too far to be counted.
const FarUntil = math.MaxInt64

// UntilUnix returns Until as a number of units since 1970, rounded up; a unit divides a
// second. It serves stores whose server computes the expiry, maybe in doubles: so a number
// above 2^53 is returned as FarUntil, and the store keeps the record for ever. For an Until
// before 1970, as the zero Until, UntilUnix returns 0.
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
