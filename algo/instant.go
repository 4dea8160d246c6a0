package algo

import "time"

// MaxInstant is the last instant that the algorithms tell apart, in nanoseconds
// since the Unix epoch: 2^62-1, in February 2116.
const MaxInstant = 1<<62 - 1

// Instant is t in whole nanoseconds since the Unix epoch, held within
// [0, MaxInstant]: time before 1970 stands still at 0, time after 2116 at
// MaxInstant.
func Instant(t time.Time) int64 {
	const maxSec, maxNsec = MaxInstant / 1_000_000_000, MaxInstant % 1_000_000_000
	sec, nsec := t.Unix(), int64(t.Nanosecond())
	if uint64(sec) < maxSec {
		return sec*1e9 + nsec
	}
	if sec < 0 {
		return 0
	}
	if sec > maxSec || nsec > maxNsec {
		return MaxInstant
	}
	return sec*1e9 + nsec
}
