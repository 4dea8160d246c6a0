package accesslog

func isDigit(c byte) bool { return c-'0' <= 9 }

// allDigits reports whether b is one digit or more.
func allDigits(b []byte) bool {
	for _, c := range b {
		if !isDigit(c) {
			return false
		}
	}
	return len(b) > 0
}

// like reports whether b has the form's bytes, with any digit for each 0.
func like(b []byte, form string) bool {
	if len(b) != len(form) {
		return false
	}
	for i, c := range b {
		if form[i] == '0' && !isDigit(c) || form[i] != '0' && form[i] != c {
			return false
		}
	}
	return true
}

// twoDigits is the number that the first two bytes make, which are known to be digits.
func twoDigits(b []byte) int64 { return int64(b[0]-'0')*10 + int64(b[1]-'0') }

// fourDigits is the same of four.
func fourDigits(b []byte) int64 { return twoDigits(b)*100 + twoDigits(b[2:]) }
