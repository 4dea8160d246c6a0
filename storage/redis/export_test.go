package redis

import "time"

// Classify is for the external tests.
var Classify = classify

// NameOf returns the name of a record in Redis.
func (s *Store) NameOf(key string) string { return s.key(key) }

// Advance moves the end of the separation of keys nearer by d.
func (s *Store) Advance(d time.Duration) { s.separateUntil.Add(-int64(d)) }
