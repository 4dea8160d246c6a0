package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// breaker is a circuit breaker for one server. It opens when the store has failed for
// openAfter. While it is open, no caller waits for the store; callers start a probe in the
// background, one at a time. It closes when a probe succeeds, but opens again at once if the
// next round trip fails.
//
// A round trip that a caller has cut short does not say whether the store works. If all are cut short
// for openAfter, a probe decides.
type breaker struct {
	openAfter time.Duration // negative: it never opens

	mu      sync.Mutex
	state   circuit
	failing time.Time // when the first failed round trip since the last success began
	failed  time.Time // when the last one ended
	cause   error
	silent  time.Time // when the first round trip began of those that callers have cut short since the last answer
	cut     time.Time // when the last of these began
	probing bool
	probed  time.Time // when the last probe ended
}

// circuit is the state of a circuit breaker.
type circuit uint8

const (
	closed   circuit = iota
	failing          // closed, but the last round trip failed
	open             // callers fail at once
	halfOpen         // a probe succeeded, and no round trip has ended since
)

const (
	probePause  = 100 * time.Millisecond // between two probes
	staleFactor = 2                      // a failure older than so many times openAfter says nothing
)

// isOutage reports whether an error means that the store cannot serve.
func isOutage(err error) bool {
	return !errors.Is(err, storage.ErrContended) &&
		(errors.Is(err, storage.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded))
}

// note takes in the outcome of a round trip that began at that time.
func (b *breaker) note(began time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil || !isOutage(err) {
		b.state, b.cause, b.silent = closed, nil, time.Time{}
		return
	}
	now := time.Now()
	if b.state == closed || b.state == failing && began.Sub(b.failed) > staleFactor*b.openAfter {
		b.state, b.failing = failing, began
	}
	b.failed, b.cause = now, err
	if b.openAfter >= 0 && (b.state == halfOpen || now.Sub(b.failing) >= b.openAfter) {
		b.state = open
	}
}

// cutShort takes in that a caller did not wait for the end of a round trip that began at that time.
func (b *breaker) cutShort(began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.silent.IsZero() || b.isStale(began) {
		b.silent = began
	}
	b.cut = began
}

// isStale reports whether the last round trip that was cut short began too long ago to say anything.
func (b *breaker) isStale(now time.Time) bool { return now.Sub(b.cut) > staleFactor*b.openAfter }

// admit returns an error if the breaker is open. probe is true if the caller must start a
// probe in the background.
func (b *breaker) admit() (probe bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != open && (b.silent.IsZero() || b.openAfter < 0) {
		return false, nil
	}
	now := time.Now()
	if b.state == open || now.Sub(b.silent) >= b.openAfter && !b.isStale(now) {
		probe = !b.probing && now.Sub(b.probed) >= probePause
		b.probing = b.probing || probe
	}
	if b.state == open {
		err = storage.NotApplied(fmt.Errorf("%w: the circuit breaker is open, because the store has failed for %v: %w",
			storage.ErrUnavailable, now.Sub(b.failing).Round(time.Millisecond), b.cause))
	}
	return probe, err
}

// end takes in the outcome of a probe.
func (b *breaker) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing, b.probed = false, time.Now()
	switch fails := err != nil && isOutage(err); {
	case fails && b.state != open && !b.silent.IsZero():
		b.state, b.failing, b.cause = open, b.silent, err
	case !fails && b.state == open:
		b.state, b.silent = halfOpen, time.Time{}
	case !fails:
		b.silent = time.Time{}
	}
}

// note takes in the outcome of a round trip that began at that time. One that a caller has cut short
// says nothing.
func (q *queue) note(began time.Time, err error) {
	late := errors.Is(err, context.DeadlineExceeded) && isOutage(err)
	if errors.Is(err, context.Canceled) || late && time.Since(began) < q.engine.options.Budget {
		q.breaker.cutShort(began)
		return
	}
	if err == nil || !isOutage(err) {
		q.mu.Lock()
		q.answered = time.Now()
		q.mu.Unlock()
	}
	q.breaker.note(began, err)
}

// noteSpent takes in that a request ends, if its budget was spent without an answer of the store. It is
// called under the lock.
func (q *queue) noteSpent(r *Request) {
	if budget := q.engine.options.Budget; time.Since(r.began) >= budget && q.answered.Before(r.began) {
		q.breaker.note(r.began, fmt.Errorf("%w: no answer within %v", storage.ErrUnavailable, budget))
	}
}

// admit refuses a request while the circuit breaker is open.
func (q *queue) admit(key string) error {
	probe, err := q.breaker.admit()
	if probe {
		go q.probe(key)
	}
	return err
}

// probe asks the store to delete a record of a version that nobody has written. So the
// server checks whether it can write, and changes nothing.
func (q *queue) probe(key string) {
	ctx, cancel := context.WithTimeout(context.Background(), q.engine.options.Budget)
	defer cancel()
	var err error
	defer func() { q.breaker.end(err) }()
	defer func() {
		if p := recover(); p != nil {
			err = storage.ErrUnavailable
		}
	}()
	_, _, err = q.engine.store.CompareAndSwap(ctx, storage.Swap{Key: key, Old: storage.NewVersion()})
}
