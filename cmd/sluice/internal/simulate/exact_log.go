package simulate

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// exactLog has the units that one key was admitted in the last period of the limit. It decides
// exactly, but is too large for a limiter. Times must not step back.
type exactLog struct {
	entries []entry
	sum     int64
}

// An entry is the units admitted at an instant.
type entry struct{ at, units int64 }

// add admits units at now. It returns how many were admitted in the half-open period that ends just
// after now.
func (l *exactLog) add(limit algo.Limit, now, units int64) int64 {
	l.forget(limit, now)
	l.entries = append(l.entries, entry{now, units})
	l.sum += units
	return l.sum
}

// wait returns the time until the limit admits the units; 0 if it does now. If the units exceed the
// limit, it returns algo.Never.
func (l *exactLog) wait(limit algo.Limit, now, units int64) time.Duration {
	l.forget(limit, now)
	excess := l.sum + units - limit.Count
	if units > limit.Count {
		return algo.Never
	}
	for i := 0; excess > 0; i++ {
		if excess -= l.entries[i].units; excess <= 0 {
			return time.Duration(l.entries[i].at + int64(limit.Period) - now)
		}
	}
	return 0
}

func (l *exactLog) forget(limit algo.Limit, now int64) {
	for len(l.entries) > 0 && now-l.entries[0].at >= int64(limit.Period) {
		l.sum -= l.entries[0].units
		l.entries = l.entries[1:]
	}
}
