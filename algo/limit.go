package algo

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxCount is the largest number of units, and the longest stretch of time in
// nanoseconds, that the algorithms compute with: 2^62.
const MaxCount = 1 << 62

// Limit is a sustained rate: Count units every Period. The zero Limit is not
// valid; no algorithm takes it.
type Limit struct {
	Count  int64         // units, from 1 to MaxCount
	Period time.Duration // from 1ns
}

// Per is the limit of count units every period.
func Per(count int64, period time.Duration) Limit {
	return Limit{Count: count, Period: period}
}

// Validate reports what is wrong with the limit, if anything.
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

// limitUnits are the periods that have a name of their own, longest first.
var limitUnits = [...]struct {
	name   string
	period time.Duration
}{
	{"d", 24 * time.Hour},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
	{"us", time.Microsecond},
	{"ns", time.Nanosecond},
}

// String writes the limit as [ParseLimit] reads it: "100/m", "5/250ms",
// "10/1m30s".
func (l Limit) String() string {
	return strconv.FormatInt(l.Count, 10) + "/" + periodString(l.Period)
}

func periodString(d time.Duration) string {
	for _, u := range limitUnits {
		if d == u.period {
			return u.name
		}
	}
	return FormatDuration(d)
}

// ParseLimit reads COUNT/PERIOD: "100/m", "10/s", "5/250ms", "1000/24h". PERIOD is
// a unit alone (ns, us, ms, s, m, h, d), a whole number of days ("7d"), or a duration
// in the units below a day as [time.ParseDuration] takes it ("1m30s"). There are no
// other units. It is the inverse of [Limit.String].
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

// ParsePeriod reads the PERIOD of a limit: a unit alone ("m") or a duration
// ("250ms", "1m30s", "7d"). It must be at least 1ns.
func ParsePeriod(s string) (time.Duration, error) {
	d, err := parsePeriod(s)
	if err != nil {
		return 0, fmt.Errorf("algo: %w", err)
	}
	return d, nil
}

func parsePeriod(s string) (time.Duration, error) {
	for _, u := range limitUnits {
		if s == u.name {
			return u.period, nil
		}
	}
	d, err := parseDays(s)
	switch {
	case err == nil && d >= 1:
		return d, nil
	case err == nil || isDuration(s) && s[0] == '-':
		return 0, fmt.Errorf("the period %q must be at least 1ns", s)
	case isDuration(s):
		return 0, fmt.Errorf("the period %q must be at most 2562047h or 106751d, which is 292 years", s)
	}
	return 0, fmt.Errorf("the period %q is neither one of ns, us, ms, s, m, h, d nor a duration such as 250ms or 24h%s", s, unitHint(s))
}

// unitHint is how a unit is written that has another name here, as the end of a
// sentence; nothing for any other.
func unitHint(period string) string {
	switch strings.TrimLeft(period, "0123456789") {
	case "w", "week", "weeks":
		return "; a week is 7d"
	case "day", "days":
		return "; a day is d"
	case "hour", "hours":
		return "; an hour is h"
	case "min", "minute", "minutes":
		return "; a minute is m"
	case "sec", "second", "seconds":
		return "; a second is s"
	}
	return ""
}

// parseDays is time.ParseDuration that knows days too.
func parseDays(s string) (time.Duration, error) {
	days, ok := strings.CutSuffix(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseInt(days, 10, 64)
	d := time.Duration(n) * 24 * time.Hour
	if err == nil && int64(d/(24*time.Hour)) != n {
		err = strconv.ErrRange
	}
	return d, err
}

// isDuration tells one that is too long for its numbers from what is none: it is one
// with all digits 0.
func isDuration(s string) bool {
	_, err := parseDays(strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return '0'
		}
		return r
	}, s))
	return err == nil
}
