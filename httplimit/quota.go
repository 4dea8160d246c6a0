package httplimit

import (
	"math"
	"math/bits"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// quotaOf is a policy's capacity and the seconds in which that much comes back,
// at least 1. They are rounded up, so that the two never promise a higher rate
// than the policy has, and the capacity is the most that RateLimit ever tells.
func quotaOf(policy algo.Policy) (quota, window int64) {
	limit := policy.Limit()
	r, _ := policy.Peek(nil, time.Unix(0, 0), 1)
	if limit.Count < 1 {
		return r.Limit, 1
	}
	high, low := bits.Mul64(uint64(max(r.Limit, 0)), uint64(max(limit.Period, 0)))
	if high >= uint64(limit.Count) {
		return r.Limit, seconds(math.MaxInt64) // all that a Duration can count
	}
	nanoseconds, rest := bits.Div64(high, low, uint64(limit.Count))
	if rest > 0 && nanoseconds < math.MaxInt64 {
		nanoseconds++
	}
	return r.Limit, seconds(time.Duration(min(nanoseconds, math.MaxInt64)))
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
