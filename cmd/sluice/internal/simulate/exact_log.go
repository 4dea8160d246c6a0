package simulate

import (
	"sort"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// exactLog has the units that one key was admitted in the last period of the limit. It decides
// exactly, but is too large for a limiter. Times must not step back.
type exactLog struct {
	entries   []entry
	total     int64 // the units of all allowed calls
	forgotten int64 // the units of the allowed calls before entries
}

// entry is an allowed call.
type entry struct {
	at    int64
	total int64 // the units of all allowed calls so far, this one included
}

// add admits units at now. It returns how many were admitted in the half-open period that ends just
// after now.
func (l *exactLog) add(limit algo.Limit, now, units int64) int64 {
	l.forget(limit, now)
	l.total += units
	l.entries = append(l.entries, entry{now, l.total})
	return l.total - l.forgotten
}

// wait returns the time until the limit admits the units; 0 if it does now. If the units exceed the
// limit, it returns algo.Never.
func (l *exactLog) wait(limit algo.Limit, now, units int64) time.Duration {
	if units > limit.Count {
		return algo.Never
	}
	l.forget(limit, now)
	least := l.total + units - limit.Count // of forgotten, for the limit to admit the units
	if l.forgotten >= least {
		return 0
	}
	i := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].total >= least })
	return limit.Period + time.Duration(l.entries[i].at-now)*time.Microsecond
}

func (l *exactLog) forget(limit algo.Limit, now int64) {
	for len(l.entries) > 0 && now-l.entries[0].at >= limit.Period.Microseconds() {
		l.forgotten = l.entries[0].total
		l.entries = l.entries[1:]
	}
}
