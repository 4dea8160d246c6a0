package redis

import "time"

// What the tests of the package's face look at behind it.
var (
	Slot    = slot
	Failure = failure
)

func (s *Store) NameOf(key string) string { return s.key(key) }

// Pass lets that much of the time pass for which keys are separated.
func (s *Store) Pass(d time.Duration) {
	until := s.separateUntil.Load().Add(-d)
	s.separateUntil.Store(&until)
}
