package accesslog

import "cmp"

// stamp is a time: seconds since 1970, rounded down, and nanoseconds. Its range is larger than an
// int64 of nanoseconds, because a log may have wrong years.
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

// back returns s minus a duration in seconds and nanoseconds.
func (s stamp) back(sec int64, nsec int32) stamp {
	s.sec -= sec
	if s.nsec -= nsec; s.nsec < 0 {
		s.sec, s.nsec = s.sec-1, s.nsec+1e9
	}
	return s
}
