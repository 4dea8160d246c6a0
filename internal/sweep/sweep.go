// Package sweep deletes unused entries of maps whose keys come from outside.
package sweep

import "time"

// Schedule says when a map is swept: when it has twice as many entries as after the last sweep, and each minute. The zero Schedule
// is ready to use.
type Schedule struct {
	kept int       // the entries after the last sweep
	at   time.Time // of the last sweep
}

const interval = time.Minute

// Map returns all without its unused entries if it has at least so many entries, and it is time for a sweep. This is a new map,
// because the memory of a map never shrinks. Otherwise Map returns all.
func Map[V any](s *Schedule, all map[string]V, least int, now time.Time, isUnused func(V) bool) map[string]V {
	if len(all) < least || len(all) < 2*s.kept && now.Sub(s.at) < interval {
		return all
	}
	used := make(map[string]V)
	for key, value := range all {
		if !isUnused(value) {
			used[key] = value
		}
	}
	s.kept, s.at = len(used), now
	return used
}
