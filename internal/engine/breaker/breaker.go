// Package breaker is a circuit breaker for one server.
//
// It opens when the server has failed for some time. While it is open, callers fail at once, and one probe at a time tests
// the server in the background. After a probe has succeeded, callers use the server again. If the first of these round trips
// fails, the breaker opens again at once.
//
// Only a caller starts a probe. After a second without callers, nobody knows whether the server still fails, so the next
// callers use it, as after a successful probe.
//
// A round trip that a caller cut short does not show whether the server works. If all round trips were cut short for as long
// as the breaker waits for failures, a probe decides.
package breaker

import (
	"errors"
	"fmt"
	"time"
)

// Breaker is a circuit breaker. It is not safe for concurrent use.
type Breaker struct {
	openAfter    time.Duration
	state        state
	answered     time.Time // see Answered
	firstFailure time.Time // when the first failed round trip since the last success began, but not before that
	lastFailure  time.Time // when the last failed round trip ended
	cause        error     // of the last failure, or of an earlier one if the last ones only ran out of time
	firstCut     time.Time // when the first round trip began that was cut short since the last answer; zero if none was
	lastCut      time.Time // when the last of these began
	probing      bool
	probeEnded   time.Time
}

type state uint8

const (
	closed   state = iota
	failing        // closed, but the last round trip failed
	open           // callers fail at once
	halfOpen       // a probe succeeded or nothing was tested for quietTime, and no round trip has ended since
)

const (
	probePause = 100 * time.Millisecond // between two probes
	quietTime  = time.Second            // an open breaker lets callers through if nothing was tested for longer
)

// New returns a closed breaker that opens when the server has failed for openAfter. If openAfter is
// negative, it never opens.
func New(openAfter time.Duration) *Breaker { return &Breaker{openAfter: openAfter} }

// Succeeded records that the server answered a round trip. Only a write ends a series of failures, because a server can refuse
// writes and answer the rest.
func (b *Breaker) Succeeded(wrote bool) {
	if b.answered, b.firstCut = time.Now(), (time.Time{}); wrote {
		b.state, b.cause = closed, nil
	}
}

// Answered returns when the server last answered a round trip.
func (b *Breaker) Answered() time.Time { return b.answered }

// Failed records that a round trip that began at that time has failed now.
func (b *Breaker) Failed(began time.Time, cause error) {
	now := time.Now()
	switch {
	case began.Before(b.probeEnded): // the probe is newer
		return
	case b.state == closed || b.state == failing && b.isStale(b.lastFailure, began):
		b.state, b.firstFailure, b.cause = failing, began, nil
		if began.Before(b.answered) { // a single connection can fail
			b.firstFailure = b.answered
		}
	}
	b.lastFailure = now
	if b.cause == nil || !IsTimeout(cause) {
		b.cause = cause
	}
	if b.openAfter >= 0 && now.Sub(b.firstFailure) >= b.openAfter {
		b.state = open
	}
}

// IsTimeout reports whether a call that failed with err only ran out of time. An earlier error then says what is
// wrong.
func IsTimeout(err error) bool {
	var timeout interface{ Timeout() bool } // that of a context or of a connection
	return errors.As(err, &timeout) && timeout.Timeout()
}

// CutShort records that a caller did not wait for the end of a round trip that began at that time.
func (b *Breaker) CutShort(began time.Time) {
	if b.firstCut.IsZero() || b.isStale(b.lastCut, began) {
		b.firstCut = began
	}
	b.lastCut = began
}

// isStale reports whether what happened at a time is too long ago to count.
func (b *Breaker) isStale(at, now time.Time) bool { return now.Sub(at) > 2*b.openAfter }

// Admit returns an error if the breaker is open. If probe is true, the caller must start a probe in
// the background and report its end to Probed.
func (b *Breaker) Admit() (probe bool, err error) {
	if b.state != open && b.firstCut.IsZero() {
		return false, nil
	}
	now := time.Now()
	if b.state == open && !b.probing && now.Sub(b.lastFailure) > quietTime && now.Sub(b.probeEnded) > quietTime {
		b.state, b.firstCut = halfOpen, time.Time{}
		return false, nil
	}
	if b.state == open || now.Sub(b.firstCut) >= b.openAfter && !b.isStale(b.lastCut, now) {
		probe = !b.probing && now.Sub(b.probeEnded) >= probePause
		b.probing = b.probing || probe
	}
	if b.state == open {
		err = fmt.Errorf("the circuit breaker is open, because the store has failed for %v: %w",
			now.Sub(b.firstFailure).Round(time.Millisecond), b.cause)
	}
	return probe, err
}

// Probed records the end of a probe. cause is nil if the server works.
func (b *Breaker) Probed(cause error) {
	b.probing, b.probeEnded = false, time.Now()
	switch {
	case cause == nil && b.state == open:
		b.state, b.firstCut = halfOpen, time.Time{}
	case cause == nil:
		b.firstCut = time.Time{}
	case b.state != open && !b.firstCut.IsZero():
		b.state, b.firstFailure, b.cause = open, b.firstCut, cause
	}
}
