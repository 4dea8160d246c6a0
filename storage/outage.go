package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// outage is for how long a store has failed, and whether a decision tries it meanwhile for
// all. The zero outage admits everybody.
type outage struct {
	patience time.Duration // for how long it must have failed; 0: for ever
	budget   time.Duration // of a decision; after two of these a failure says nothing more of the store

	mu     sync.Mutex
	since  time.Time // the first failure since the last answer; zero if there was none
	latest error
	at     time.Time // when it was last seen to fail
	tried  bool
}

// note takes in what came of a round trip. Whatever the database says of one, other
// than that it cannot serve, is an answer. A failure that is cut is of a caller that cut the
// trip short and may just have been in a hurry: it makes no outage, nor does it end one.
func (o *outage) note(err error, cut bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	silent := errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case err == nil || errors.Is(err, ErrContended) || !silent && !cut:
		o.since = time.Time{}
		return
	case cut:
		if o.lasts(now) {
			o.at = now
		}
		return
	case o.isStale(now.Add(-o.budget)): // the trip may have begun then
		o.since = now
	}
	o.latest, o.at = err, now
}

func (o *outage) isStale(now time.Time) bool {
	return o.since.IsZero() || now.Sub(o.at) > 2*o.budget
}

// lasts reports whether the store has failed for long. A single failure is none of long,
// whenever it was.
func (o *outage) lasts(now time.Time) bool {
	return !o.isStale(now) && o.at.Sub(o.since) >= o.patience
}

// enter refuses a decision while another tries the store for all. It reports whether this
// one does so from now on; leave must follow then.
func (o *outage) enter() (tries bool, err error) {
	if o.patience == 0 {
		return false, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	switch {
	case !o.lasts(now):
		return false, nil
	case o.tried:
		return false, NotApplied(fmt.Errorf("%w: it has failed for %v: %w", ErrUnavailable, now.Sub(o.since).Round(time.Millisecond), o.latest))
	}
	o.tried = true
	return true, nil
}

func (o *outage) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tried = false
}
