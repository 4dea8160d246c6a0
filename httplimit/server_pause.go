package httplimit

import (
	"math/bits"
	"net/http"
	"time"
)

// serverPause is the time in which no request is sent, because the server answered 429 or
// 503, and the ramp after it.
type serverPause struct {
	max             time.Duration // the longest pause
	until           time.Time
	sent            int64 // requests sent since until
	failures        int   // 429 and 503 in a row without a time, for the exponential backoff
	failureEvent    int64 // the event that last raised failures
	previousFailure int64 // the one before
}

// isOver reports whether nothing would change if all were forgotten. Failures are kept for
// the longest pause; after that, the backoff can start again.
func (s *serverPause) isOver(now time.Time) bool {
	end := s.until.Add(s.rampTime())
	if s.failures > 0 {
		end = end.Add(s.max)
	}
	return !now.Before(end)
}

// rampUp is when a request can be sent after the pause, if so many others are sent before
// it. The number that is sent doubles in each step. After the last step it has no bound.
func (s *serverPause) rampUp(now time.Time, before int64) time.Time {
	const steps = 10
	doublings := min(bits.Len64(uint64(s.sent+before)), steps)
	return later(now, s.until.Add(s.rampTime()*time.Duration(doublings)/steps))
}

func (s *serverPause) rampTime() time.Duration { return min(time.Second, s.max) }

// update starts a pause after a 429 or 503: for its Retry-After, else for the time that its
// RateLimit reports, else by exponential backoff.
func (s *serverPause) update(now time.Time, sentAt, event int64, response *http.Response, reported time.Duration) {
	if code := response.StatusCode; code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable {
		if sentAt > s.previousFailure { // else it was sent before the failures, and was slow
			s.failures = 0
		}
		return
	}
	wait, ok := readRetryAfter(now, response.Header)
	if !ok {
		wait = reported
	}
	if !ok && wait == 0 {
		wait = s.backOff(sentAt, event)
	}
	if until := now.Add(min(wait, s.max)); wait > 0 && until.After(s.until) {
		s.until, s.sent = until, 0
	}
}

// backOff returns the next pause of the backoff. Only a request that was sent after the
// last failure shows that the pause was too short. Failures of requests that were in flight
// together count as one.
func (s *serverPause) backOff(sentAt, event int64) time.Duration {
	if sentAt > s.failureEvent {
		s.failures++
		s.previousFailure, s.failureEvent = s.failureEvent, event
	}
	return time.Second << min(max(s.failures-1, 0), 30)
}
