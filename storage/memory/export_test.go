package memory

import "time"

// SweepAt removes up to max records that have expired at now, and returns how many it removed.
func (s *Store) SweepAt(now time.Time, max int) int { return s.sweep(instantOf(now), max) }
