package memory

import (
	"math"
	"time"
)

// Instants are nanoseconds since 1970.
const (
	first = 1                 // all of the time until then
	last  = math.MaxInt64 - 2 // all of the time from then on, in 2262
	never = math.MaxInt64 - 1 // when a record without a TTL lapses
	none  = math.MaxInt64     // when no record lapses, because there is none
)

func instant(t time.Time) int64 {
	switch sec := t.Unix(); {
	case sec < 0:
		return first
	case sec >= last/1_000_000_000:
		return last
	default:
		return max(first, sec*1e9+int64(t.Nanosecond()))
	}
}

// lapse is when a record written at that instant lapses.
func lapse(at int64, ttl time.Duration) int64 {
	if ttl == 0 || int64(ttl) > last-at {
		return never
	}
	return at + int64(ttl)
}
