package accesslog

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// clock parses times. It caches the last minute, because the next line usually has the same one.
type clock struct {
	minute, zone []byte // 17/May/2015:10:05 and +0000; empty: there was none
	start        int64  // second 0 of that minute, since 1970
}

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

// clf reads the form of the common format: 17/May/2015:10:05:03 +0000, with a
// fraction of up to nine digits after the second if there is one.
func (c *clock) clf(b []byte) (time.Time, bool) {
	zone := len(b) - len("+0000")
	if zone < len("17/May/2015:10:05:03 ") || b[zone-1] != ' ' {
		return time.Time{}, false
	}
	return c.parse("02/Jan/2006:15:04", b[:17], b[17:zone-1], b[zone:])
}

// rfc3339 reads 2015-05-17T10:05:03.25+02:00 and the looser forms that the
// package comment lists. It may write to b.
func (c *clock) rfc3339(b []byte) (time.Time, bool) {
	if len(b) < len("2015-05-17T10:05:03") {
		return time.Time{}, false
	}
	if b[10] == ' ' || b[10] == 't' {
		b[10] = 'T'
	}
	zone := bytes.TrimLeft(b[19:], "0123456789.,")
	return c.parse("2006-01-02T15:04", b[:16], b[16:len(b)-len(zone)], zone)
}

// parse reads the parts of a time: a minute in the layout, :03.25 and a zone.
// A leap second, :60, is the last nanosecond of its minute, so that the next minute is
// not before it.
func (c *clock) parse(layout string, minute, second, zone []byte) (time.Time, bool) {
	nsec, ok := fraction(second[3:])
	sec := number(second[1:3])
	if !ok || second[0] != ':' || sec < 0 || sec > 60 {
		return time.Time{}, false
	}
	if !bytes.Equal(minute, c.minute) || !bytes.Equal(zone, c.zone) {
		offset, ok := zoneText(zone)
		start, err := time.Parse(layout+"-0700", string(minute)+offset)
		if !ok || err != nil {
			return time.Time{}, false
		}
		c.minute, c.zone, c.start = append(c.minute[:0], minute...), append(c.zone[:0], zone...), start.Unix()
	}
	if sec == 60 {
		sec, nsec = 59, 1e9-1
	}
	return time.Unix(c.start+sec, nsec).UTC(), true
}

// zoneText returns Z, ±hhmm, ±hh:mm or, for UTC, nothing in the form ±hhmm.
func zoneText(b []byte) (text string, ok bool) {
	if len(b) == 0 || string(b) == "Z" || string(b) == "z" {
		return "+0000", true
	}
	if len(b) == 6 && b[3] == ':' {
		b = append(b[:3:3], b[4:]...)
	}
	// time.Parse accepts an offset of 24 hours and of 60 minutes.
	return string(b), len(b) == 5 && number(b[1:3]) < 24 && number(b[3:]) < 60
}

// fraction reads a point and one to nine digits after it, as nanoseconds. Nothing
// at all is 0.
func fraction(b []byte) (nsec int64, ok bool) {
	if len(b) == 0 {
		return 0, true
	}
	if len(b) == 1 || len(b) > 10 || b[0] != '.' && b[0] != ',' {
		return 0, false
	}
	n, err := strconv.ParseUint((string(b[1:]) + "00000000")[:9], 10, 32)
	return int64(n), err == nil
}

// json reads the time in JSON: a number, or a string with any of the forms.
func (c *clock) json(b []byte, isNumber bool) (time.Time, bool) {
	switch {
	case isNumber:
		return sinceEpoch(string(b))
	case len(b) > 4 && b[4] == '-':
		return c.rfc3339(b)
	case len(b) > 2 && b[0] == '[' && b[len(b)-1] == ']':
		return c.clf(b[1 : len(b)-1])
	case len(b) > 2 && b[2] == '/':
		return c.clf(b)
	}
	return sinceEpoch(string(b))
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
