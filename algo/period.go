package algo

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// units maps the names of units to the short ones.
var units = map[string]string{
	"ns": "ns", "us": "us", "µs": "us", "ms": "ms",
	"s": "s", "sec": "s", "second": "s", "seconds": "s",
	"m": "m", "min": "m", "minute": "m", "minutes": "m",
	"h": "h", "hour": "h", "hours": "h",
	"d": "d", "day": "d", "days": "d",
}

// FormatDuration formats d like [time.Duration.String], but without trailing zero units: 15m
// instead of 15m0s, and 36h instead of 36h0m0s. Specs use this form. [time.ParseDuration] parses
// it.
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

// formatPeriod formats d for parsePeriod. It writes one unit without the 1.
func formatPeriod(d time.Duration) string {
	if d == day {
		return "d"
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
		number := strings.TrimSuffix(s, unit)
		if number == "" {
			number = "1"
		}
		short = number + name
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
	hint := ""
	if unit == "w" || unit == "week" || unit == "weeks" {
		hint = "; a week is 7d"
	}
	return 0, fmt.Errorf("the period %q is neither a unit (ns, us, ms, s or sec, m or min, h or hour, d or day) nor a duration such as 250ms or 24h%s", s, hint)
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
