package algo

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxCount is the largest count of a limit and the largest burst: 2^40, a terabyte for limits in bytes.
const MaxCount int64 = 1 << 40

// MaxPeriod is the longest period of a limit: 71 years.
const MaxPeriod = (1<<51 - 1) * time.Microsecond

// Limit is a sustained rate: Count units every Period. The zero Limit is not valid.
type Limit struct {
	Count  int64         // units, from 1 to MaxCount
	Period time.Duration // from 1us to MaxPeriod, in whole microseconds
}

// Per returns a Limit without validating it.
func Per(count int64, period time.Duration) Limit {
	return Limit{Count: count, Period: period}
}

// Validate returns an error if a field is out of range.
func (l Limit) Validate() error {
	switch {
	case l.Count < 1:
		return fmt.Errorf("algo: Limit.Count must be at least 1, got %d", l.Count)
	case l.Count > MaxCount:
		return fmt.Errorf("algo: Limit.Count must be at most 2^40 (%d), got %d", MaxCount, l.Count)
	case l.Period < time.Microsecond:
		return fmt.Errorf("algo: Limit.Period must be at least 1us, got %v", l.Period)
	case l.Period > MaxPeriod:
		return fmt.Errorf("algo: Limit.Period must be at most 26062d, which is 71 years, got %v", FormatDuration(l.Period))
	case l.Period%time.Microsecond != 0:
		return fmt.Errorf("algo: Limit.Period must be a whole number of microseconds, got %v; the nearest is %v", l.Period, l.Period.Round(time.Microsecond))
	}
	return nil
}

// IsValid reports whether Validate returns nil.
func (l Limit) IsValid() bool {
	return uint64(l.Count-1) < uint64(MaxCount) && uint64(l.Period-1) < uint64(MaxPeriod) && l.Period%time.Microsecond == 0
}

// String formats the limit for [ParseLimit]: "100/m", "5/250ms", "10/1m30s".
func (l Limit) String() string {
	return strconv.FormatInt(l.Count, 10) + "/" + formatPeriod(l.Period)
}

// ParseLimit parses COUNT/PERIOD, such as "100/m". PERIOD is a whole number of microseconds, written as
//
//   - a unit: us, ms, s (sec, second), m (min, minute), h (hour) or d (day); long names can be plural
//   - a whole number with a unit: 7d, 15min
//   - a duration for [time.ParseDuration]: 250ms, 1m30s
//
// For weeks, months and years write 7d, 30d or 365d, or use package calendar.
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
	case err != nil && strings.TrimSpace(count) != count:
		return fail("the count %q has white space beside it; write COUNT/PERIOD without spaces, for instance 100/m", count)
	case err != nil && strings.Contains(count, "."):
		return fail("the count %q is not a whole number; choose a longer period, such as 1/2s for 0.5/s", count)
	case err != nil:
		return fail("the count %q is not a whole number from 1 to 2^40 (1099511627776)", count)
	case n < 1:
		return fail("the count must be at least 1")
	case n > MaxCount:
		return fail("the count must be at most 2^40 (%d)", MaxCount)
	}
	p, err := parsePeriod(period)
	if err != nil {
		return fail("%v", err)
	}
	return Per(n, p), nil
}

const day = 24 * time.Hour

// units maps the names of units to the short ones.
var units = map[string]string{
	"us": "us", "µs": "us", "μs": "us", // the micro sign, and the Greek letter mu
	"ms": "ms",
	"s":  "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
	"m": "m", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
	"h": "h", "hour": "h", "hours": "h",
	"d": "d", "day": "d", "days": "d",
}

// FormatDuration is [time.Duration.String] without trailing zero units: 15m instead of 15m0s.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// formatPeriod formats d for parsePeriod. It writes one unit without the 1, and whole days as days.
func formatPeriod(d time.Duration) string {
	switch {
	case d == day:
		return "d"
	case d >= day && d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := FormatDuration(d)
	if unit, ok := units[strings.TrimPrefix(s, "1")]; ok {
		return unit
	}
	return s
}

// parsePeriod parses the PERIOD of a limit; see ParseLimit.
func parsePeriod(s string) (time.Duration, error) {
	unit := strings.TrimLeft(s, "0123456789")
	short := s
	if name, ok := units[unit]; ok {
		short = cmp.Or(strings.TrimSuffix(s, unit), "1") + name
	}
	d, err := parseDuration(short)
	switch {
	case err != nil && isNumber(short): // isDuration accepts some numbers, because time.ParseDuration accepts 0 without a unit
	case err == nil && d > MaxPeriod || err != nil && isDuration(short) && short[0] != '-':
		return 0, fmt.Errorf("the period %q must be at most 26062d, which is 71 years", s)
	case err == nil && d >= time.Microsecond && d%time.Microsecond != 0:
		return 0, fmt.Errorf("the period %q must be a whole number of microseconds; the nearest is %v", s, d.Round(time.Microsecond))
	case err == nil && d >= time.Microsecond:
		return d, nil
	case err == nil || isDuration(short):
		return 0, fmt.Errorf("the period %q must be at least 1us", s)
	}
	return 0, fmt.Errorf("the period %q is neither a unit (us, ms, s or sec, m or min, h or hour, d or day) nor a duration such as 250ms or 24h%s", s, periodHint(s))
}

// parseDuration is time.ParseDuration, extended to days.
func parseDuration(s string) (time.Duration, error) {
	days, ok := strings.CutSuffix(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseInt(days, 10, 64)
	d := time.Duration(n) * day
	if err == nil && int64(d/day) != n {
		err = strconv.ErrRange
	}
	return d, err
}

// isNumber reports whether s is a number without a unit.
func isNumber(s string) bool {
	return strings.ContainsAny(s, "0123456789") && strings.Trim(s, "0123456789.+-") == ""
}

// isDuration reports whether s has the form of a duration, even if it overflows one. It parses s with
// every digit replaced by 0.
func isDuration(s string) bool {
	_, err := parseDuration(strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return '0'
		}
		return r
	}, s))
	return err == nil
}
