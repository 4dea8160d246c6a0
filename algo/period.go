package algo

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// periodUnits are the units of a period, longest first.
var periodUnits = [...]struct {
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

func periodString(d time.Duration) string {
	for _, u := range periodUnits {
		if d == u.period {
			return u.name
		}
	}
	return FormatDuration(d)
}

// ParsePeriod parses the PERIOD of a limit: a unit alone ("m", "min") or a duration
// ("250ms", "1m30s", "15min", "7d"). See [ParseLimit] for the units. A period below 1ns
// is an error.
func ParsePeriod(s string) (time.Duration, error) {
	d, err := parsePeriod(s)
	if err != nil {
		return 0, fmt.Errorf("algo: %w", err)
	}
	return d, nil
}

func parsePeriod(s string) (time.Duration, error) {
	short := shortUnit(s)
	for _, u := range periodUnits {
		if short == u.name {
			return u.period, nil
		}
	}
	d, err := parseDuration(short)
	switch {
	case err == nil && d >= 1:
		return d, nil
	case err == nil || isDuration(short) && short[0] == '-':
		return 0, fmt.Errorf("the period %q must be at least 1ns", s)
	case isDuration(short):
		return 0, fmt.Errorf("the period %q must be at most 2562047h or 106751d, which is 292 years", s)
	}
	return 0, fmt.Errorf("the period %q is neither a unit (ns, us, ms, s or sec, m or min, h or hour, d or day) nor a duration such as 250ms or 24h%s", s, weekHint(s))
}

// longUnits maps the long names of the units to the short ones.
var longUnits = map[string]string{
	"sec": "s", "second": "s", "seconds": "s",
	"min": "m", "minute": "m", "minutes": "m",
	"hour": "h", "hours": "h",
	"day": "d", "days": "d",
}

// shortUnit replaces the long name of the unit in a period such as "min" or "15min".
func shortUnit(period string) string {
	unit := strings.TrimLeft(period, "0123456789")
	if short, ok := longUnits[unit]; ok {
		return strings.TrimSuffix(period, unit) + short
	}
	return period
}

// weekHint returns the end of an error message, if the period is in weeks.
func weekHint(period string) string {
	switch strings.TrimLeft(period, "0123456789") {
	case "w", "week", "weeks":
		return "; a week is 7d"
	}
	return ""
}

// parseDuration is time.ParseDuration, extended to days.
func parseDuration(s string) (time.Duration, error) {
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

// isDuration reports whether s has the form of a duration, even if it is too long for
// its type. With every digit replaced by 0 such a text can be parsed.
func isDuration(s string) bool {
	_, err := parseDuration(strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return '0'
		}
		return r
	}, s))
	return err == nil
}
