package httplimit

import (
	"cmp"
	"math"
	"math/bits"
	"net/http"
	"time"
)

// maxWait is the longest pause, and the longest time for which a reported limit delays requests.
const maxWait = time.Hour

// quotaTTL is how long a limit stays in force, at least, after the last response that
// reported it. A server may report it on some routes only, or only with denials.
const quotaTTL = time.Minute

// slack is how much longer one request may travel to the server than another. Without it, a request
// that is sent a window after a slow one could reach the server less than a window after it.
const slack = 100 * time.Millisecond

// serverQuota estimates how many requests a server still accepts.
//
// remaining is a lower bound: the number that a response reported, less all requests that the
// server may not have counted when it sent the response. As a server's quota only grows by
// itself, the highest of these bounds is valid. When no request is in flight, the lowest number
// since the last such moment is exact, but for requests without a response.
type serverQuota struct {
	known       bool // a response reported a limit; all else is valid only then
	remaining   int64
	lowest      int64         // the lowest report since no request was in flight
	unanswered  int64         // requests without a response since then
	refillAt    time.Time     // when the server accepts one more than remaining
	refillSetAt int64         // the event that set refillAt
	reportedAt  time.Time     // the latest refillAt of all reports since a request used the refill
	fullAt      time.Time     // when the whole quota is back, whatever was not answered
	window      time.Duration // the time in which the whole quota comes back, and slack
	expiresAt   time.Time     // when the limit is forgotten unless it is reported again
}

func (s *serverQuota) isOver(now time.Time) bool { return !s.known || !now.Before(s.fullAt) }

// availableAt is when the server accepts a request, if so many others are sent before it.
func (s *serverQuota) availableAt(now time.Time, before int64) time.Time {
	switch remaining := s.remaining - before; {
	case !s.known || remaining > 0:
		return now
	case remaining == 0:
		return s.refillAt
	case before > 0:
		return now.Add(s.window) // when spend has set refillAt for the last of them
	}
	return s.fullAt
}

// spend counts a request that is sent now. It reports whether the request used the refill.
func (s *serverQuota) spend(now time.Time, event int64) bool {
	if !s.known {
		return false
	}
	if s.remaining > 0 {
		s.remaining--
		return false
	}
	// The response will report the next refill. Without one, the whole quota is back after a window.
	s.remaining = 0
	s.refillAt, s.refillSetAt, s.reportedAt = now.Add(s.window), event, now
	s.fullAt = s.refillAt
	return true
}

// giveBack undoes spend for a request that did not count for the limit. If it used a refill, and
// refillAt has changed since, it gives nothing back, because the server may have no room for both. If
// the server has reported since, the refill may be in what it reported, so its next one counts.
func (s *serverQuota) giveBack(sentAt int64, usedRefill bool) {
	if !usedRefill {
		s.remaining++
	} else if s.refillSetAt == sentAt {
		s.refillAt = s.reportedAt
	}
}

// update takes in the quota that a response reported. uncounted is how many requests the
// server may have counted after it sent the response.
func (s *serverQuota) update(now time.Time, sentAt, event int64, reported reportedQuota, uncounted int64) {
	if !s.known {
		s.known, s.remaining = true, math.MinInt64 // any report is higher
	}
	s.remaining = min(max(s.remaining, reported.remaining-uncounted), reported.remaining)
	s.lowest = min(s.lowest, reported.remaining)
	wait := max(reported.wait, time.Second) // a server that reports no time is probed soon
	s.window = min(max(reported.window, wait)+slack, maxWait)
	s.fullAt = now.Add(s.window)
	s.expiresAt = now.Add(max(s.window, quotaTTL))
	// A request that was sent after refillAt was set has newer information. An older one
	// may be outdated, so it counts only if it reports a later time.
	refillAt := now.Add(min(wait, maxWait))
	s.reportedAt = later(s.reportedAt, refillAt)
	if sentAt >= s.refillSetAt || refillAt.After(s.refillAt) {
		s.refillAt, s.refillSetAt = refillAt, event
	}
}

// allAnswered is called when no request is in flight.
func (s *serverQuota) allAnswered() {
	if s.lowest != math.MaxInt64 {
		s.remaining = max(s.remaining, s.lowest-s.unanswered)
	}
	s.lowest, s.unanswered = math.MaxInt64, 0
}

// serverPause is the time in which no request is sent, because the server answered 429 or
// 503, and the ramp of a second after it.
type serverPause struct {
	until           time.Time
	sent            int64 // requests sent since until
	failures        int   // 429 and 503 in a row that name no pause, for the exponential backoff
	failureEvent    int64 // the event that last raised failures
	previousFailure int64 // the one before
}

// isOver reports whether the pause can be forgotten. Failures are kept for the longest pause.
func (s *serverPause) isOver(now time.Time) bool {
	end := s.until.Add(time.Second)
	if s.failures > 0 {
		end = end.Add(maxWait)
	}
	return !now.Before(end)
}

// rampUp is when a request can be sent after the pause, if so many others are sent before it. The
// number that is sent doubles in each step. After the last step it has no bound.
func (s *serverPause) rampUp(now time.Time, before int64) time.Time {
	const steps = 10
	doublings := min(bits.Len64(uint64(s.sent+before)), steps)
	return later(now, s.until.Add(time.Second/steps*time.Duration(doublings)))
}

// update starts a pause after a 429 or 503: for its Retry-After, else for the time that its
// RateLimit reports, else by exponential backoff. A time of 0 counts as none. Otherwise clients would
// send as many requests as the server can deny.
func (s *serverPause) update(now time.Time, sentAt, event int64, response *http.Response, reported time.Duration) {
	if code := response.StatusCode; code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable {
		if sentAt > s.previousFailure { // else it was sent before the failures, and was slow
			s.failures = 0
		}
		return
	}
	wait := cmp.Or(readRetryAfter(now, response.Header), reported)
	if wait == 0 {
		// Only a request that was sent after the last failure shows that the pause was too short. So
		// failures that were in flight together count as one.
		if sentAt > s.failureEvent {
			s.failures++
			s.previousFailure, s.failureEvent = s.failureEvent, event
		}
		wait = time.Second << min(max(s.failures-1, 0), 30)
	}
	if until := now.Add(min(wait, maxWait)); until.After(s.until) {
		s.until, s.sent = until, 0
	}
}
