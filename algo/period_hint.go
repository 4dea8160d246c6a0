package algo

import (
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// refusedUnits has the lengths of units that ParseLimit refuses with a hint. unitLength also knows their plurals
// and adverbs, such as weekly.
var refusedUnits = map[string]time.Duration{
	"micro": time.Microsecond, "usec": time.Microsecond, "microsec": time.Microsecond, "microsecond": time.Microsecond,
	"milli": time.Millisecond, "msec": time.Millisecond, "millisec": time.Millisecond, "millisecond": time.Millisecond,
	"hr": time.Hour, "daily": day,
	"w": 7 * day, "wk": 7 * day, "week": 7 * day, "fortnight": 14 * day,
	"mo": 30 * day, "mon": 30 * day, "mth": 30 * day, "month": 30 * day, "quarter": 90 * day,
	"y": 365 * day, "yr": 365 * day, "year": 365 * day, "annum": 365 * day, "annual": 365 * day, "decade": 3650 * day,
}

// calendarUnits are the units that differ in length.
var calendarUnits = map[time.Duration]string{30 * day: "month", 90 * day: "quarter", 365 * day: "year", 3650 * day: "decade"}

// periodHint returns the end of the error for a period that ParseLimit refuses: what to write instead, or "" if the
// meaning of the period is unknown.
func periodHint(s string) string {
	if isNumber(s) {
		return "; the unit is missing: write it after the number, such as " + strings.Trim(s, "+-") + "s"
	}
	total, longest, ok := meaning(s)
	if !ok || total < time.Microsecond || total > MaxPeriod || total%time.Microsecond != 0 {
		return ""
	}
	name, isCalendar := calendarUnits[longest]
	switch {
	case name == "month" || name == "year":
		return "; a " + name + " has no fixed length: use the policy calendar for quotas by date, or write days, such as " + formatPeriod(total)
	case isCalendar:
		return "; a " + name + " has no fixed length, so write days, such as " + formatPeriod(total)
	case longest == 7*day && total%longest == 0:
		return "; a week is 7d" + soWrite(total, longest)
	case longest == 14*day && total%longest == 0:
		return "; a fortnight is 14d" + soWrite(total, longest)
	}
	return "; write " + formatPeriod(total)
}

func soWrite(total, unit time.Duration) string {
	if total == unit {
		return ""
	}
	return ", so write " + formatPeriod(total)
}

// meaning returns the period that a text probably means, and the longest unit in it. It reads numbers and
// units, refused units too, in either case and with spaces: "2 weeks", "1d12h", "1.5 Days" or "per hour".
func meaning(s string) (total, longest time.Duration, ok bool) {
	s = strings.TrimPrefix(strings.Join(strings.Fields(s), ""), "per")
	for s != "" {
		end := len(s) - len(strings.TrimLeft(s, "0123456789."))
		number := s[:end]
		if s = s[end:]; s == "" {
			return 0, 0, false
		}
		if end = strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) }); end < 0 {
			end = len(s)
		}
		length, known := unitLength(s[:end])
		n, err := strconv.ParseFloat(cmp.Or(number, "1"), 64)
		product := n * float64(length)
		if !known || err != nil || product+float64(total) >= 1<<63 {
			return 0, 0, false
		}
		total, longest, s = total+time.Duration(product), max(longest, length), s[end:]
	}
	return total, longest, true
}

// unitLength returns the length of a unit. It does not know M, which can mean a minute or a month.
func unitLength(name string) (time.Duration, bool) {
	lower := strings.ToLower(name)
	for _, word := range [...]string{lower, strings.TrimSuffix(strings.TrimSuffix(lower, "s"), "ly")} {
		if short, ok := units[word]; ok && name != "M" {
			length, err := parseDuration("1" + short)
			return length, err == nil
		}
		if length, ok := refusedUnits[word]; ok {
			return length, true
		}
	}
	return 0, false
}
