// Package readable writes durations, counts and names for people. Reports, messages and the page of sluice compare use
// it. JSON and traces, which programs read, have exact durations in the notation of
// [time.ParseDuration].
package readable

import (
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
)

const day = 24 * time.Hour

// Exact returns d without rounding: "250ms", "1m30s", "36h". From two days on it writes whole days as
// days: "7d". Use it for values that someone chose, such as the period of a limit.
func Exact(d time.Duration) string {
	if d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return algo.FormatDuration(d)
}

// Rounded returns d with three or four significant digits: "282ms", "2.571s", "1m1s", "9h7m", "6d23h". Use it
// for values that were measured or computed, such as a wait.
func Rounded(d time.Duration) string {
	unit := time.Duration(1)
	switch {
	case d.Round(time.Hour) >= 2*day:
		d = d.Round(time.Hour)
		days := Exact(d.Truncate(day))
		return strings.TrimSuffix(days+Exact(d%day), "0s")
	case d >= time.Hour:
		unit = time.Minute
	case d >= time.Minute:
		unit = time.Second
	case d >= time.Second:
		unit = time.Millisecond
	default:
		for d >= 1000*unit {
			unit *= 10
		}
	}
	return Exact(d.Round(unit))
}
