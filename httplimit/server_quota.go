package httplimit

import (
	"math"
	"time"
)

// minBelief is how long a limit stays in force, at least, after the last response that
// reported it. A server may report it on some routes only, or only with denials.
const minBelief = time.Minute

// serverQuota estimates how many requests a server still accepts.
//
// remaining is a lower bound: the number that a response reported, less all requests that the
// server may not have counted when it sent the response. Responses arrive in any order. As
// a server's quota only grows by itself, the highest of these bounds is valid. When no
// request is in flight, the server has counted all, so the lowest number reported since
// the last such moment is exact, but for requests without a response.
type serverQuota struct {
	max         time.Duration // the longest wait and window
	known       bool          // a response reported a limit; all else is valid only then
	remaining   int64
	leastSeen   int64         // the least that was reported since no request was in flight
	lost        int64         // requests without a response since then
	refillAt    time.Time     // when the server accepts one more than remaining
	refillSetAt int64         // the event that set refillAt
	fullAt      time.Time     // when the whole quota is back, whatever was not answered
	window      time.Duration // the time in which the whole quota comes back
	expiresAt   time.Time     // when the limit is forgotten unless it is reported again
}

func newServerQuota(max time.Duration) serverQuota {
	return serverQuota{max: max, leastSeen: math.MaxInt64}
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

// spend counts a request that is sent now.
func (s *serverQuota) spend(now time.Time, event int64) {
	if !s.known {
		return
	}
	if s.remaining > 0 {
		s.remaining--
		return
	}
	// This request used the refill. Its response will report the next one. Without a
	// response, the whole quota is back after a window.
	s.remaining = 0
	s.refillAt, s.refillSetAt = now.Add(s.window), event
	s.fullAt = s.refillAt
}

// update takes in the quota that a response reported. uncounted is how many requests the
// server may have counted after it sent the response.
func (s *serverQuota) update(now time.Time, sentAt, event int64, reported reportedQuota, uncounted int64) {
	if !s.known {
		s.known, s.remaining = true, math.MinInt64 // any report is higher
	}
	s.remaining = min(max(s.remaining, reported.remaining-uncounted), reported.remaining)
	s.leastSeen = min(s.leastSeen, reported.remaining)
	wait := max(reported.wait, time.Second) // a server that reports no time is probed soon
	s.window = min(max(reported.window, wait), s.max)
	s.fullAt = now.Add(s.window)
	s.expiresAt = now.Add(max(s.window, minBelief))
	// A request that was sent after refillAt was set has newer information. An older one
	// may be outdated, so it counts only if it reports a later time.
	if refillAt := now.Add(min(wait, s.max)); sentAt >= s.refillSetAt || refillAt.After(s.refillAt) {
		s.refillAt, s.refillSetAt = refillAt, event
	}
}

// updateWithoutReport is update for a response that reports no limit. Its request did not
// count for the limit, so the server accepts another in its place.
func (s *serverQuota) updateWithoutReport(now time.Time) {
	if now.Before(s.expiresAt) {
		s.remaining++
	} else {
		s.known = false
	}
}

// allAnswered is called when no request is in flight.
func (s *serverQuota) allAnswered() {
	if s.leastSeen != math.MaxInt64 {
		s.remaining = max(s.remaining, s.leastSeen-s.lost)
	}
	s.leastSeen, s.lost = math.MaxInt64, 0
}
