package memstore

import (
	"math"
	"time"
)

// Instants are nanoseconds since 1970.
const (
	untouched = 0                 // the nearest lapse in a shard that was never written
	earliest  = 1                 // all of the time until then
	latest    = math.MaxInt64 - 2 // all of the time from then on, in 2262
	never     = math.MaxInt64 - 1 // when a record without a TTL lapses
	none      = math.MaxInt64     // when no record lapses, because there is none
)

// Instant is a time in whole nanoseconds since 1970: 0 for all of the time before,
// and the same for all of it after 2262.
func Instant(t time.Time) int64 {
	switch sec := t.Unix(); {
	case sec < 0:
		return 0
	case sec >= latest/1_000_000_000:
		return latest
	default:
		return sec*1e9 + int64(t.Nanosecond())
	}
}

func instant(t time.Time) int64 { return max(earliest, Instant(t)) }

// lapse is when a record written at that instant lapses.
func lapse(at int64, ttl time.Duration) int64 {
	if ttl == 0 || int64(ttl) > latest-at {
		return never
	}
	return at + int64(ttl)
}
