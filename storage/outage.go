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
	stale    time.Duration // after that long a failure says nothing more of the store

	mu     sync.Mutex
	since  time.Time // the first failure since the last answer; zero if there was none
	latest error
	at     time.Time // of latest
	tried  bool
}

// note takes in what came of a round trip. Whatever the database says of one, other
// than that it cannot serve, is an answer.
func (o *outage) note(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if errors.Is(err, ErrContended) || !errors.Is(err, ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		o.since = time.Time{}
		return
	}
	now := time.Now()
	if !o.lasts(now) {
		o.since = now
	}
	o.latest, o.at = err, now
}

func (o *outage) lasts(now time.Time) bool {
	return !o.since.IsZero() && now.Sub(o.at) <= o.stale
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
	case !o.lasts(now) || now.Sub(o.since) < o.patience:
		return false, nil
	case o.tried:
		return false, NotApplied(fmt.Errorf("%w: it has failed for %v: %w", ErrUnavailable, now.Sub(o.since), o.latest))
	}
	o.tried = true
	return true, nil
}

func (o *outage) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tried = false
}
