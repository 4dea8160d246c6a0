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
