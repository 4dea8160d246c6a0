package algo

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxCount is 2^62: the largest count of a limit, the largest burst, and the most units that a
// charge can leave in use. It is also the longest time, in nanoseconds, that gcra and tokenbucket
// may need to refill a burst.
const MaxCount = 1 << 62

// Limit is a sustained rate: Count units every Period. The zero Limit is not valid. The field
// Limit of a [Result] is not a rate, but a capacity.
type Limit struct {
	Count  int64         // units, from 1 to MaxCount
	Period time.Duration // from 1ns to the longest time.Duration, which is 292 years
}

// Per returns the limit of count units every period. It does not validate it.
func Per(count int64, period time.Duration) Limit {
	return Limit{Count: count, Period: period}
}

// Validate returns an error if Count or Period is out of range.
func (l Limit) Validate() error {
	switch {
	case l.Count < 1:
		return fmt.Errorf("algo: Limit.Count must be at least 1, got %d", l.Count)
	case l.Count > MaxCount:
		return fmt.Errorf("algo: Limit.Count must be at most 2^62, got %d", l.Count)
	case l.Period < 1:
		return fmt.Errorf("algo: Limit.Period must be at least 1ns, got %v", l.Period)
	}
	return nil
}

// String formats the limit for [ParseLimit]: "100/m", "5/250ms", "10/1m30s".
func (l Limit) String() string {
	return strconv.FormatInt(l.Count, 10) + "/" + formatPeriod(l.Period)
}

// ParseLimit parses COUNT/PERIOD: "100/m", "10/s", "5/250ms", "1000/24h". PERIOD is
// one of
//
//   - a unit: ns, us, ms, s, m, h or d
//   - the long name of a unit: sec, second, min, minute, hour or day, or its plural
//   - a whole number followed by d ("7d") or by a long name ("15min")
//   - a duration that [time.ParseDuration] parses ("1m30s")
//
// Write 7d for a week. There are no months, because they differ in length.
// [Limit.String] always writes the short names.
func ParseLimit(s string) (Limit, error) {
	fail := func(format string, args ...any) (Limit, error) {
		return Limit{}, fmt.Errorf("algo: limit %q: %s", s, fmt.Sprintf(format, args...))
	}
	count, period, ok := strings.Cut(s, "/")
	if !ok {
		return fail("want COUNT/PERIOD, for instance 100/m or 5/250ms")
	}
	n, err := strconv.ParseInt(count, 10, 64)
	switch {
	case err != nil:
		return fail("the count %q is not a whole number from 1 to 2^62", count)
	case n < 1:
		return fail("the count must be at least 1")
	case n > MaxCount:
		return fail("the count must be at most 2^62")
	}
	p, err := parsePeriod(period)
	if err != nil {
		return fail("%v", err)
	}
	return Per(n, p), nil
}
