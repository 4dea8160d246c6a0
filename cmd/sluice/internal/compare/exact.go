package main

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// exactLog has the times at which one client was admitted in the last period of a limit. It
// decides exactly, but is too large for a limiter. Times must not step back.
type exactLog struct {
	limit    algo.Limit
	admitted []time.Time
}

// add admits a request at now, and returns how many were admitted in the half-open
// period that ends just after now.
func (l *exactLog) add(now time.Time) int64 {
	l.forget(now)
	l.admitted = append(l.admitted, now)
	return int64(len(l.admitted))
}

// wait returns the time until the limit admits one more request; 0 if it does now.
func (l *exactLog) wait(now time.Time) time.Duration {
	l.forget(now)
	excess := len(l.admitted) - int(l.limit.Count)
	if excess < 0 {
		return 0
	}
	return l.admitted[excess].Add(l.limit.Period).Sub(now)
}

func (l *exactLog) forget(now time.Time) {
	for len(l.admitted) > 0 && now.Sub(l.admitted[0]) >= l.limit.Period {
		l.admitted = l.admitted[1:]
	}
}
