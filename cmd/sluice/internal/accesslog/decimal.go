package accesslog

// decimal is 0.DIGITS * 10^exp. The first digit is not 0. A time needs at most 20 digits: 11 for
// seconds and 9 for nanoseconds. Further digits are dropped.
type decimal struct {
	digits   [20]byte
	n        int // digits held
	exp      int
	negative bool
}

// sinceEpoch reads a JSON number as a time since 1970. The size of the number determines the unit.
func sinceEpoch(b []byte) (stamp, bool) {
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
	for i := range d.exp + 9 { // down to nanoseconds; the rest is cut off
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

// exponent reads e+09. It caps the value at 2^30, because no line has so many digits.
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
