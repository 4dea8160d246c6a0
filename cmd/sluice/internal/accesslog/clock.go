package accesslog

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// usableTime returns the reason if a time was not read, or is outside the range of package algo: a policy could not tell such
// times apart.
func usableTime(at time.Time, ok bool) (_ time.Time, reason string) {
	switch {
	case !ok:
		return at, reasonStamp
	case algo.Instant(at) != at.UnixMicro():
		return at, reasonRange
	}
	return at, ""
}

// clfTime reads the form of the common format: 17/May/2015:10:05:03 +0000.
func clfTime(text string) (time.Time, bool) {
	return parseTime(text, len("17/May/2015:10:05:"), "02/Jan/2006:15:04:05 -0700")
}

// rfc3339Time reads 2015-05-17T10:05:03.25+02:00 and the looser forms that the package comment lists.
func rfc3339Time(text string) (time.Time, bool) {
	text = strings.ToUpper(text) // a t and a z are valid too
	if len(text) > 10 && text[10] == ' ' {
		text = text[:10] + "T" + text[11:]
	}
	return parseTime(text, len("2015-05-17T10:05:"), time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05")
}

// parseTime reads a time in one of the layouts, also with a fraction of the second. The seconds begin at an index of the text. A
// leap second, 60, is the last nanosecond of its minute, so that the next minute is not before it.
func parseTime(text string, second int, layouts ...string) (time.Time, bool) {
	leap := len(text) > second && text[second] == '6'
	if leap {
		text = text[:second] + "5" + text[second+1:]
	}
	for _, layout := range layouts {
		at, err := time.Parse(layout, text)
		switch _, offset := at.Zone(); {
		case err != nil || max(offset, -offset) >= 24*60*60: // time.Parse accepts an offset of 24 hours
		case !leap:
			return at.UTC(), true
		case at.Second() == 50:
			return at.UTC().Truncate(time.Minute).Add(time.Minute - 1), true
		}
	}
	return time.Time{}, false
}

// jsonTime reads the time in JSON: a number, or a string with any of the forms.
func jsonTime(text string, isNumber bool) (time.Time, bool) {
	switch {
	case isNumber:
		return sinceEpoch(text)
	case len(text) > 4 && text[4] == '-':
		return rfc3339Time(text)
	case len(text) > 2 && text[0] == '[' && text[len(text)-1] == ']':
		return clfTime(text[1 : len(text)-1])
	case len(text) > 2 && text[2] == '/':
		return clfTime(text)
	}
	return sinceEpoch(text)
}

// sinceEpoch reads a decimal number as a time since 1970, rounded to a microsecond. The size of the number determines the unit. A
// number below 1e8, in March 1973, is a duration.
func sinceEpoch(text string) (time.Time, bool) {
	n, err := strconv.ParseFloat(text, 64) // exact to a microsecond up to 2112
	switch {
	case err != nil || !(n >= 1e8 && n < 1e19):
		return time.Time{}, false
	case n < 1e11: // seconds
		n *= 1e6
	case n < 1e14: // milliseconds
		n *= 1e3
	case n >= 1e17: // nanoseconds
		n /= 1e3
	}
	return time.UnixMicro(int64(math.Round(n))).UTC(), true
}

// allDigits reports whether b is one digit or more.
func allDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}

// number returns the value of a few digits; -1 if b has anything else.
func number(b []byte) int64 {
	if !allDigits(b) {
		return -1
	}
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return n
}
