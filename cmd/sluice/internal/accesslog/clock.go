package accesslog

import (
	"bytes"
	"time"
)

// clock parses times. It caches the text of the last minute, because the next line usually has the
// same minute.
type clock struct {
	minute, zone []byte // 17/May/2015:10:05 and +0000; empty: there was none
	sec          int64  // since 1970, at second 0 of that minute
}

// clf reads the form of the common format: 17/May/2015:10:05:03 +0000, with a
// fraction of up to nine digits behind the second if there is one.
func (c *clock) clf(b []byte) (stamp, bool) {
	zone := len(b) - len("+0000")
	if zone < len("17/May/2015:10:05:03 ") || b[zone-1] != ' ' {
		return stamp{}, false
	}
	return c.stamp(b[:17], b[17:zone-1], b[zone:], clfMinute)
}

// rfc3339 reads 2015-05-17T10:05:03.25+02:00 and the looser forms that the
// package comment lists.
func (c *clock) rfc3339(b []byte) (stamp, bool) {
	if len(b) < len("2015-05-17T10:05:03") {
		return stamp{}, false
	}
	zone := bytes.TrimLeftFunc(b[19:], inFraction)
	return c.stamp(b[:16], b[16:len(b)-len(zone)], zone, isoMinute)
}

func inFraction(r rune) bool { return '0' <= r && r <= '9' || r == '.' || r == ',' }

// stamp reads the parts of a stamp: a minute, which parse can read, :03.25 and a zone.
// A leap second, :60, is the last nanosecond of its minute, so that the next minute is
// not before it.
func (c *clock) stamp(minute, second, zone []byte, parse func([]byte) (int64, bool)) (stamp, bool) {
	nsec, ok := fraction(second[3:])
	if !ok || second[0] != ':' || !allDigits(second[1:3]) || twoDigits(second[1:]) > 60 {
		return stamp{}, false
	}
	if !bytes.Equal(minute, c.minute) || !bytes.Equal(zone, c.zone) {
		sec, ok1 := parse(minute)
		offset, ok2 := zoneOffset(zone)
		if !ok1 || !ok2 {
			return stamp{}, false
		}
		c.minute, c.zone = append(c.minute[:0], minute...), append(c.zone[:0], zone...)
		c.sec = sec - offset
	}
	if second[1] == '6' {
		return stamp{c.sec + 59, 1e9 - 1}, true
	}
	return stamp{c.sec + twoDigits(second[1:]), nsec}, true
}

// clfMinute reads 17/May/2015:10:05, as seconds since 1970 if that is in UTC.
func clfMinute(b []byte) (int64, bool) {
	if !like(b[:3], "00/") || !like(b[6:], "/0000:00:00") {
		return 0, false
	}
	return unix(fourDigits(b[7:]), monthOf(b[3:6]), twoDigits(b), twoDigits(b[12:]), twoDigits(b[15:]))
}

// isoMinute reads 2015-05-17T10:05 in the same way.
func isoMinute(b []byte) (int64, bool) {
	if !like(b[:10], "0000-00-00") || b[10]|0x20 != 't' && b[10] != ' ' || !like(b[11:], "00:00") {
		return 0, false
	}
	return unix(fourDigits(b), twoDigits(b[5:]), twoDigits(b[8:]), twoDigits(b[11:]), twoDigits(b[14:]))
}

// json reads what stands for the time in JSON: a number, or a string with any of
// the forms.
func (c *clock) json(b []byte, isNumber bool) (stamp, bool) {
	switch {
	case isNumber:
		return sinceEpoch(b)
	case len(b) > 4 && b[4] == '-':
		return c.rfc3339(b)
	case len(b) > 2 && b[0] == '[' && b[len(b)-1] == ']':
		return c.clf(b[1 : len(b)-1])
	case len(b) > 2 && b[2] == '/':
		return c.clf(b)
	}
	return sinceEpoch(b)
}

// unix is the number of seconds from 1970 to a minute in UTC; ok is false if there is
// no such minute.
func unix(year, month, day, hour, minute int64) (sec int64, ok bool) {
	t := time.Date(int(year), time.Month(month), int(day), int(hour), int(minute), 0, 0, time.UTC)
	_, m, d := t.Date() // another month if this one has no such day
	return t.Unix(), int64(m) == month && int64(d) == day && hour <= 23 && minute <= 59
}

// zoneOffset is the number of seconds east of Greenwich of Z, ±hhmm, ±hh:mm or,
// for UTC, nothing.
func zoneOffset(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) == 1 && b[0]|0x20 == 'z' {
		return 0, true
	}
	if !like(b[1:], "0000") && !like(b[1:], "00:00") {
		return 0, false
	}
	hours, minutes := twoDigits(b[1:]), twoDigits(b[len(b)-2:])
	offset := hours*3600 + minutes*60
	if b[0] == '-' {
		offset = -offset
	}
	return offset, (b[0] == '-' || b[0] == '+') && hours <= 23 && minutes <= 59
}

// fraction reads a point and one to nine digits behind it, as nanoseconds. Nothing
// at all is 0.
func fraction(b []byte) (nsec int32, ok bool) {
	if len(b) == 0 {
		return 0, true
	}
	if len(b) > 10 || b[0] != '.' && b[0] != ',' || !allDigits(b[1:]) {
		return 0, false
	}
	for i := 1; i <= 9; i++ {
		nsec *= 10
		if i < len(b) {
			nsec += int32(b[i] - '0')
		}
	}
	return nsec, true
}

// monthOf is the number of Jan to Dec, from 1; 0 for any other word.
func monthOf(b []byte) int64 {
	const names = "JanFebMarAprMayJunJulAugSepOctNovDec"
	for m := range int64(12) {
		if names[3*m:3*m+3] == string(b) {
			return m + 1
		}
	}
	return 0
}
