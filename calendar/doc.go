// Package calendar implements quotas by the calendar: Count units in each day, week, month or year of a time zone.
//
// # Promise
//
// No day, week, month or year has more than Count units. A week begins on Monday. A window begins with the first instant whose local date
// is in it. So if a change of the clocks skips midnight, it begins when the clocks have changed. If it repeats an hour around
// midnight, the window begins at the first midnight. A day without any instant, such as 30 December 2011 in Samoa, has no window.
//
// Let D(k) be the least length of k consecutive whole windows. The interval has at most
//
//	Count * (2 + k)      for the largest k with D(k) < x
//
// units for an interval of more than a microsecond. D(k) is the least number of days in k consecutive days, weeks, months or
// years, times 24 hours, minus the largest difference between two offsets of the zone since 1970. [Policy.Bound] computes
// this bound.
//
// RetryAfter is exact across changes of the clocks.
//
// # When not to use it
//
// A client can use the whole quota at once, twice around the end of a window. For a steady rate use package gcra, and for windows of a
// fixed length package fixedwindow. The policy runs in Go on every store, so a decision on PostgreSQL and Redis takes two round trips.
//
// All processes must have the same version of the time zone database, or their windows can differ after a country has changed its
// rules. The zone must be one that [time.LoadLocation] returns, because a spec has only the name of the zone.
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
// If Count changes, units in use stay in use. If the unit or the zone changes, they count as used at the time of the first allowed
// request or charge in their window.
package calendar
