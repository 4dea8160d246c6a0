package httplimit

import (
	"math"
	"math/bits"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// capacityOf is the most units that a policy lets be had at once, and so the most
// that RateLimit ever tells of it.
func capacityOf(policy algo.Policy) int64 {
	r, _ := policy.Peek(nil, time.Unix(0, 0), 1) // without a state there is none to be at fault
	return r.Limit
}

// windowOf is the seconds in which so many units come back, at least 1. They are
// rounded up, so that the two never promise a higher rate than the limit.
func windowOf(capacity int64, limit algo.Limit) int64 {
	if limit.Count < 1 {
		return 1
	}
	high, low := bits.Mul64(uint64(max(capacity, 0)), uint64(max(limit.Period, 0)))
	if high >= uint64(limit.Count) {
		return seconds(math.MaxInt64) // all that a Duration can count
	}
	nanoseconds, rest := bits.Div64(high, low, uint64(limit.Count))
	if rest > 0 && nanoseconds < math.MaxInt64 {
		nanoseconds++
	}
	return seconds(time.Duration(min(nanoseconds, math.MaxInt64)))
}

// seconds rounds up, to at least 1.
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return max(whole, 1)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
