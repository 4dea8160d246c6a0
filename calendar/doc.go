// Package calendar implements quotas by the calendar: Count units in each day, week, month or year of a time zone.
//
// # Promise
//
// No day, week (from Monday), month or year has more than Count units, and RetryAfter is exact across changes of the clocks. A
// window begins with the first instant whose local date is in it. So a day that the zone skipped has none.
//
// An interval of more than a microsecond has at most
//
//	Count * (2 + k)      for the largest k with D(k) < its length
//
// units ([Policy.Bound]). D(k) is the least number of days in k consecutive days, weeks, months or years, times 24 hours, minus
// the largest difference between two offsets of the zone since 1970.
//
// # When not to use it
//
// A client can use the whole quota at once, twice around the end of a window. For a steady rate use package gcra. A decision on
// PostgreSQL and Redis takes two round trips, because the policy runs in Go.
//
// All processes must have the same version of the time zone database, or their windows can differ.
//
// # Timeline
//
// 10/day tz=Europe/Berlin, where 29 March 2026 has 23 hours.
//
//	        28 March 12:00   29 March 00:00   01:59  03:00   30 March 00:00
//	        |----------------|----------------|------|-------|
//	cost 10      ok at 18:00: 0 left
//	cost 1            denied at 20:00, retry in 4h
//	cost 10                       ok at 01:00: 0 left
//	cost 1                                            denied at 04:00, retry in 20h
//
// # Changed limits
//
// If the options of a key change, units in use stay in use. They count at the time of the first allowed request or charge in
// their window.
package calendar
