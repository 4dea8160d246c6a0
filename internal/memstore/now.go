package memstore

import "time"

// Now is the time by Clock, or by the monotonic clock if that is nil. The latter
// begins with the wall clock's time when it is first asked, and from then on
// never steps back or ahead, whoever sets the wall clock; nor does it count, on
// most systems, the time for which the machine sleeps. It takes half as long to
// read. A limit whose windows are to begin with the hours of the wall clock
// wants time.Now for its clock.
func (s *Store) Now() time.Time {
	if s.Clock != nil {
		return s.Clock()
	}
	ns := uint64(s.steady())
	sec := ns / 1e9
	return time.Unix(int64(sec), int64(ns-sec*1e9)) // half the work of adding to a time
}

// Instant is [Instant] of Now.
func (s *Store) Instant() int64 {
	if s.Clock != nil {
		return Instant(s.Clock())
	}
	return s.steady()
}

// steady is the time by the monotonic clock.
func (s *Store) steady() int64 {
	b := s.began.Load()
	if b == nil {
		b = s.begin()
	}
	return b.wall + int64(time.Since(b.monotonic))
}

// beginning is one instant by both clocks.
type beginning struct {
	wall      int64 // nanoseconds since 1970
	monotonic time.Time
}

func (s *Store) begin() *beginning {
	now := time.Now()
	s.began.CompareAndSwap(nil, &beginning{now.UnixNano(), now})
	return s.began.Load()
}
