package accesslog

import "cmp"

// stamp is an instant: seconds since 1970, rounded down, and nanoseconds. It
// reaches further than an int64 of nanoseconds, which a log may do by mistake.
type stamp struct {
	sec  int64
	nsec int32
}

func (s stamp) before(t stamp) bool {
	return s.sec < t.sec || s.sec == t.sec && s.nsec < t.nsec
}

func (s stamp) compare(t stamp) int {
	return cmp.Or(cmp.Compare(s.sec, t.sec), cmp.Compare(s.nsec, t.nsec))
}

// back is s less a duration given in seconds and nanoseconds.
func (s stamp) back(sec int64, nsec int32) stamp {
	s.sec -= sec
	if s.nsec -= nsec; s.nsec < 0 {
		s.sec, s.nsec = s.sec-1, s.nsec+1e9
	}
	return s
}

// clock reads stamps. It remembers the minute of the last one, because the next
// line most often lies in it.
type clock struct {
	minute [17]byte // 17/May/2015:10:05
	zone   [5]byte  // +0000
	sec    int64    // of second 0 of that minute
}

// clf reads the form of the common format: 17/May/2015:10:05:03 +0000, with a
// fraction of up to nine digits behind the second if there is one.
func (c *clock) clf(b []byte) (stamp, bool) {
	if len(b) < 26 || b[17] != ':' {
		return stamp{}, false
	}
	zone := b[len(b)-5:]
	if b[len(b)-6] != ' ' {
		return stamp{}, false
	}
	var s stamp
	var ok bool
	if len(b) > 26 {
		if s.nsec, ok = fraction(b[20 : len(b)-6]); !ok {
			return stamp{}, false
		}
	}
	if string(b[:17]) != string(c.minute[:]) || string(zone) != string(c.zone[:]) {
		sec, ok := clfMinute(b[:17], zone)
		if !ok {
			return stamp{}, false
		}
		c.minute, c.zone, c.sec = [17]byte(b[:17]), [5]byte(zone), sec
	}
	second, ok := two(b[18:], 59)
	s.sec = c.sec + second
	return s, ok
}

func clfMinute(b, zone []byte) (sec int64, ok bool) {
	month := monthOf(b[3:6])
	day, ok1 := two(b, 31)
	year, ok2 := four(b[7:])
	hour, ok3 := two(b[12:], 23)
	minute, ok4 := two(b[15:], 59)
	offset, ok5 := zoneOffset(zone)
	ok = ok1 && ok2 && ok3 && ok4 && ok5 && b[2] == '/' && b[6] == '/' && b[11] == ':' && b[14] == ':' && validDay(year, month, day)
	return days(year, month, day)*86400 + hour*3600 + minute*60 - offset, ok
}

// rfc3339 reads 2015-05-17T10:05:03.25+02:00 and the looser forms that the
// package comment lists.
func (c *clock) rfc3339(b []byte) (s stamp, ok bool) {
	if len(b) < 19 || b[4] != '-' || b[7] != '-' || b[10]|0x20 != 't' && b[10] != ' ' || b[13] != ':' || b[16] != ':' {
		return stamp{}, false
	}
	year, ok1 := four(b)
	month, ok2 := two(b[5:], 12)
	day, ok3 := two(b[8:], 31)
	hour, ok4 := two(b[11:], 23)
	minute, ok5 := two(b[14:], 59)
	second, ok6 := two(b[17:], 59)
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && validDay(year, month, day)) {
		return stamp{}, false
	}
	rest := b[19:]
	if len(rest) > 0 && (rest[0] == '.' || rest[0] == ',') {
		n := 1
		for n < len(rest) && isDigit(rest[n]) {
			n++
		}
		if s.nsec, ok = fraction(rest[:n]); !ok {
			return stamp{}, false
		}
		rest = rest[n:]
	}
	offset, ok := zoneOffset(rest)
	s.sec = days(year, month, day)*86400 + hour*3600 + minute*60 + second - offset
	return s, ok
}

// text reads what stands for the time in JSON: a number, or a string with any of
// the forms.
func (c *clock) text(b []byte, isNumber bool) (stamp, bool) {
	switch {
	case isNumber:
		return number(b)
	case len(b) > 4 && b[4] == '-':
		return c.rfc3339(b)
	case len(b) > 2 && b[0] == '[' && b[len(b)-1] == ']':
		return c.clf(b[1 : len(b)-1])
	case len(b) > 2 && b[2] == '/':
		return c.clf(b)
	}
	return number(b)
}

// zoneOffset is the number of seconds east of Greenwich of Z, ±hhmm, ±hh:mm or,
// for UTC, nothing.
func zoneOffset(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) == 1 && b[0]|0x20 == 'z' {
		return 0, true
	}
	if len(b) == 6 && b[3] == ':' {
		b = []byte{b[0], b[1], b[2], b[4], b[5]}
	}
	if len(b) != 5 || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	hours, ok1 := two(b[1:], 23)
	minutes, ok2 := two(b[3:], 59)
	offset := hours*3600 + minutes*60
	if b[0] == '-' {
		offset = -offset
	}
	return offset, ok1 && ok2
}

// fraction reads a point and one to nine digits behind it, as nanoseconds.
func fraction(b []byte) (int32, bool) {
	if len(b) < 2 || len(b) > 10 || b[0] != '.' && b[0] != ',' {
		return 0, false
	}
	n := int32(0)
	for i := 1; i <= 9; i++ {
		n *= 10
		if i < len(b) {
			if !isDigit(b[i]) {
				return 0, false
			}
			n += int32(b[i] - '0')
		}
	}
	return n, true
}

// decimal is 0.DIGITS * 10^exp, the first digit not 0. A stamp needs 20 digits at
// most: 11 of seconds and 9 of nanoseconds; further ones are dropped.
type decimal struct {
	digits   [20]byte
	n        int // digits held
	exp      int
	negative bool
}

// number reads a JSON number as an instant. Its size tells its unit.
func number(b []byte) (stamp, bool) {
	d, ok := parseDecimal(b)
	if !ok || d.n > 0 && d.exp > 19 {
		return stamp{}, false
	}
	switch {
	case d.n == 0:
		return stamp{}, true
	case d.exp > 17:
		d.exp -= 9
	case d.exp > 14:
		d.exp -= 6
	case d.exp > 11:
		d.exp -= 3
	}
	return d.stamp(), true
}

func (d *decimal) stamp() stamp {
	var s stamp
	for i := 0; i < d.exp+9; i++ { // down to nanoseconds; what is below is cut off
		digit := byte(0)
		if i < d.n {
			digit = d.digits[i]
		}
		if i < d.exp {
			s.sec = s.sec*10 + int64(digit)
		} else {
			s.nsec = s.nsec*10 + int32(digit)
		}
	}
	if d.negative {
		return stamp{}.back(s.sec, s.nsec)
	}
	return s
}

func parseDecimal(b []byte) (d decimal, ok bool) {
	if len(b) > 0 && b[0] == '-' {
		d.negative, b = true, b[1:]
	}
	point, i := false, 0
	for ; i < len(b) && (isDigit(b[i]) || b[i] == '.' && !point); i++ {
		if b[i] == '.' {
			point = true
			continue
		}
		d.add(b[i], point)
	}
	if i == 0 || i == 1 && point {
		return d, false
	}
	if i == len(b) {
		return d, true
	}
	e, ok := exponent(b[i:])
	d.exp += e
	return d, ok
}

// add appends a digit, which stands before or behind the point.
func (d *decimal) add(c byte, behind bool) {
	leading := d.n == 0 && c == '0'
	if !leading && d.n < len(d.digits) {
		d.digits[d.n] = c - '0'
		d.n++
	}
	switch {
	case behind && leading:
		d.exp--
	case !behind && !leading:
		d.exp++
	}
}

// exponent reads e+09. What is beyond 2^30 no line has the digits to make up for.
func exponent(b []byte) (e int, ok bool) {
	if b[0]|0x20 != 'e' {
		return 0, false
	}
	b = b[1:]
	negative := len(b) > 0 && b[0] == '-'
	if negative || len(b) > 0 && b[0] == '+' {
		b = b[1:]
	}
	for _, c := range b {
		if !isDigit(c) {
			return 0, false
		}
		e = min(e*10+int(c-'0'), 1<<30)
	}
	if negative {
		e = -e
	}
	return e, len(b) > 0
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// two reads the two digits that b begins with, a number up to most.
func two(b []byte, most int64) (int64, bool) {
	tens, ones := b[0]-'0', b[1]-'0'
	n := int64(tens)*10 + int64(ones)
	return n, tens <= 9 && ones <= 9 && n <= most
}

// four reads the four digits that b begins with.
func four(b []byte) (int64, bool) {
	century, ok1 := two(b, 99)
	year, ok2 := two(b[2:], 99)
	return century*100 + year, ok1 && ok2
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

func validDay(year, month, day int64) bool {
	if month < 1 || day < 1 {
		return false
	}
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return day <= 29
	}
	return day <= int64("\x00\x1f\x1c\x1f\x1e\x1f\x1e\x1f\x1f\x1e\x1f\x1e\x1f"[month])
}

// days is the number of days from 1970-01-01 to a day of the Gregorian calendar.
// The year begins in March here, so that the leap day is its last.
func days(year, month, day int64) int64 {
	if month < 3 {
		year, month = year-1, month+12
	}
	year += 400 // keeps the divisions below positive in the year 0
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468 - 146097
}
