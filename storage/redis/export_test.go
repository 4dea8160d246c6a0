package redis

// What the tests of the package's face look at behind it.
var (
	Slot    = slot
	Failure = failure
)

func (s *Store) NameOf(key string) string { return s.key(key) }
