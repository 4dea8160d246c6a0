package backtest

import (
	"sort"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Window has the units that one key was admitted in the last period of a limit, with their times. Times must not step back.
type Window struct {
	admitted []admission
	total    int64 // the units of all calls
	expired  int64 // the units of the calls before admitted
}

// admission is all calls that were allowed at one time.
type admission struct {
	at    int64
	total int64 // the units of all calls so far, these included
}

// Add admits units at now. It returns how many were admitted in the half-open period that ends just
// after now.
func (w *Window) Add(limit algo.Limit, now, units int64) int64 {
	w.expire(limit, now)
	w.total += units
	if last := len(w.admitted) - 1; last >= 0 && w.admitted[last].at == now {
		w.admitted[last].total = w.total
	} else {
		w.admitted = append(w.admitted, admission{now, w.total})
	}
	return w.total - w.expired
}

// Wait returns the time until a limiter that decides by the window admits the units; 0 if it does now. If the units exceed the
// limit, it returns algo.Never.
func (w *Window) Wait(limit algo.Limit, now, units int64) time.Duration {
	if units > limit.Count {
		return algo.Never
	}
	w.expire(limit, now)
	least := w.total + units - limit.Count // of expired, for the limit to admit the units
	if w.expired >= least {
		return 0
	}
	i := sort.Search(len(w.admitted), func(i int) bool { return w.admitted[i].total >= least })
	return limit.Period + time.Duration(w.admitted[i].at-now)*time.Microsecond
}

func (w *Window) expire(limit algo.Limit, now int64) {
	for len(w.admitted) > 0 && now-w.admitted[0].at >= limit.Period.Microseconds() {
		w.expired = w.admitted[0].total
		w.admitted = w.admitted[1:]
	}
}
