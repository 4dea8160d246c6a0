package algo

import "time"

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
