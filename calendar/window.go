package calendar

import (
	"iter"
	"sort"
	"time"
)

// dateOf returns the first day of the window that has the local date of t, as midnight in UTC.
func (u Unit) dateOf(t time.Time) time.Time {
	year, month, day := t.Date()
	switch u {
	case Week:
		day -= (int(t.Weekday()) + 6) % 7 // since Monday
	case Month:
		day = 1
	case Year:
		month, day = time.January, 1
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// next returns the first day of the next window.
func (u Unit) next(date time.Time) time.Time {
	length := [...]struct{ years, months, days int }{Day: {days: 1}, Week: {days: 7}, Month: {months: 1}, Year: {years: 1}}[u]
	return date.AddDate(length.years, length.months, length.days)
}

// startOf returns the first instant whose date in a zone is that of midnight, in UTC, or later. The offset changes at most once in
// two days.
func startOf(midnight time.Time, zone *time.Location) time.Time {
	from := midnight.Add(-24 * time.Hour).In(zone)
	change := changeOf(from, from.Add(48*time.Hour))
	if local := midnight.Add(-offsetOf(from)); local.Before(change) {
		return local
	}
	return later(change, midnight.Add(-offsetOf(change)))
}

func offsetOf(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// changeOf returns when the offset changes between two instants, or to if it does not. ZoneBounds is of no use, because it
// is wrong on the last day of some leap years.
func changeOf(from, to time.Time) time.Time {
	old := offsetOf(from)
	if offsetOf(to) == old {
		return to
	}
	seconds := sort.Search(int(to.Sub(from)/time.Second), func(i int) bool { return offsetOf(from.Add(time.Duration(i)*time.Second)) != old })
	return from.Add(time.Duration(seconds) * time.Second)
}

// window returns the window that contains an instant, in microseconds since the Unix epoch. It ends before end.
func (o *Options) window(at int64) (start, end int64) {
	zone := o.zone()
	t := time.UnixMicro(at).In(zone)
	date := o.Unit.dateOf(t)
	for {
		next := o.Unit.next(date)
		if after := startOf(next, zone); t.Before(after) {
			return startOf(date, zone).UnixMicro(), after.UnixMicro()
		}
		date = next // a repeated hour around midnight has the date of the day before
	}
}

// drift returns the largest difference between two offsets of the zone since 1970.
func (o *Options) drift() time.Duration {
	least, most := 24*time.Hour, -24*time.Hour
	for t := range changes(o.zone()) {
		least, most = min(least, offsetOf(t)), max(most, offsetOf(t))
	}
	return most - least
}

// changes yields the begin of 1970, and when the offset of a zone has changed since.
func changes(zone *time.Location) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for t := time.UnixMicro(0).In(zone); yield(t) && t.Year() < 2113; {
			_, to := t.ZoneBounds()
			if to.IsZero() {
				return
			}
			t = later(to, t.Add(time.Hour)) // it is not after t on the last day of some leap years
		}
	}
}

// matchesItsName reports whether a zone has the offsets of the zone that time.LoadLocation returns for its name.
func matchesItsName(zone *time.Location) bool {
	if zone == time.UTC {
		return true
	}
	loaded, err := time.LoadLocation(zone.String())
	if err != nil || loaded == time.Local || zone.String() == "" {
		return false
	}
	for _, one := range [...]*time.Location{zone, loaded} {
		for t := range changes(one) {
			if offsetOf(t.In(zone)) != offsetOf(t.In(loaded)) {
				return false
			}
		}
	}
	return true
}

// leastDays returns the least number of days in k consecutive windows.
func (u Unit) leastDays(k int64) int64 {
	switch u {
	case Week:
		return 7 * k
	case Year:
		return 365 * k
	case Day:
		return k
	}
	least := int64(366)
	for first := range 12 { // of a year that is no leap year
		from := time.Date(2001, time.Month(1+first), 1, 0, 0, 0, 0, time.UTC)
		least = min(least, int64(from.AddDate(0, int(k%12), 0).Sub(from)/(24*time.Hour)))
	}
	return k/12*365 + least
}
