package memory

import (
	"math"
	"time"
)

// These are special instants, in nanoseconds since 1970.
const (
	unwritten = 0                 // the first expiry of a shard that was never written
	latest    = math.MaxInt64 - 2 // in 2262
	never     = math.MaxInt64 - 1 // the expiry of a record without a TTL
	none      = math.MaxInt64     // the first expiry if there is no record
)

// instantOf returns t in nanoseconds since 1970. It is 0 for all times before 1970, and the same
// number for all times after 2262.
func instantOf(t time.Time) int64 {
	switch sec := t.Unix(); {
	case sec < 0:
		return 0
	case sec >= latest/1_000_000_000:
		return latest
	default:
		return sec*1e9 + int64(t.Nanosecond())
	}
}

// expiry returns the instant at which a record expires that is written at the instant at.
func expiry(at int64, ttl time.Duration) int64 {
	if ttl == 0 || int64(ttl) > latest-at {
		return never
	}
	return at + int64(ttl)
}

// Now returns the time of Clock. Without a Clock, it is the wall clock at the first call, plus the time since then by the
// monotonic clock. So changes of the wall clock have no effect, and on most systems the time stops while the machine sleeps. If
// windows must start with the hours of the wall clock, set Clock to time.Now.
func (s *Store) Now() time.Time {
	if s.Clock != nil {
		return s.Clock()
	}
	return time.Unix(0, s.monotonic())
}

// instant returns [instantOf] of Now.
func (s *Store) instant() int64 {
	if s.Clock != nil {
		return instantOf(s.Clock())
	}
	return s.monotonic()
}

func (s *Store) monotonic() int64 {
	s.startClock.Do(func() { s.clockStart = time.Now() })
	return s.clockStart.UnixNano() + int64(time.Since(s.clockStart))
}
