package httplimit

import (
	"cmp"
	"context"
	"errors"
	"math/bits"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-go/sluice/internal/retrywait"
)

// maxWait is the longest pause, and the longest time for which a reported limit delays requests.
const maxWait = time.Hour

// server is what a Transport knows about the requests that share one limit of a server.
type server struct {
	turn    chan struct{} // full while a request has the turn to wait for the server; the others queue for the turn
	changed chan struct{} // gets a value if the request that has the turn may have to wait for another time

	mu          sync.Mutex // guards the fields below
	inFlight    int64      // accepted requests that have not ended
	ended       int64      // accepted requests that have ended
	pausedUntil time.Time  // after a 429 or 503
	sinceThen   int        // requests accepted since pausedUntil
	failures    int        // 429 and 503 in a row

	// remaining is a lower bound: the number that a response reported, less all requests that the server
	// may not have counted when it sent the response. As a quota only grows by itself, the highest of
	// these bounds is valid.
	limited   bool // a response reported a limit; the fields below matter only then
	remaining int64
	refillAt  time.Time     // when the server accepts one more than remaining
	refill    time.Duration // the time from one refill to the next, if no response reports it
	expiresAt time.Time     // when the limit is forgotten unless it is reported again
}

// pendingRequest is a request that the server accepts, from then until its response.
type pendingRequest struct {
	acceptedAt time.Time
	ended      int64 // of the server, when it was accepted
}

// accept waits until the server accepts the request.
func (s *server) accept(ctx context.Context) (*pendingRequest, error) {
	if _, _, err := s.tryAccept(ctx, false); err != nil {
		return nil, err
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, contextEnded(ctx, theServer)
	}
	for {
		p, wait, err := s.tryAccept(ctx, true)
		if p != nil || err != nil {
			return p, err
		}
		select {
		case <-time.After(wait):
		case <-s.changed:
		case <-ctx.Done():
		}
	}
}

// tryAccept accepts a request that has the turn, or returns how long it waits. It returns an error if the
// context ends before that. A response can make the wait shorter, unless it is a pause or nothing is in
// flight.
func (s *server) tryAccept(ctx context.Context, hasTurn bool) (p *pendingRequest, wait time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	wait = s.delay(now)
	switch {
	case ctx.Err() != nil:
		err = contextEnded(ctx, theServer)
	case (s.pausedUntil.After(now) || s.inFlight == 0) && retrywait.ExceedsDeadline(ctx, wait):
		err = tooLong(theServer, wait)
	case wait <= 0 && hasTurn:
		p = s.begin(now)
	}
	return p, wait, err
}

// delay is how long the server accepts no request, as far as is known. After a pause, the number of
// accepted requests doubles in each step. After 10 steps it has no bound.
func (s *server) delay(now time.Time) time.Duration {
	doublings := bits.Len(uint(min(s.sinceThen, 1<<10-1)))
	delay := s.pausedUntil.Sub(now) + time.Duration(doublings)*time.Second/10
	if s.limited && s.remaining == 0 {
		delay = max(delay, s.refillAt.Sub(now))
	}
	return delay
}

func (s *server) begin(now time.Time) *pendingRequest {
	s.inFlight++
	s.sinceThen++
	if s.remaining > 0 {
		s.remaining--
	} else {
		s.refillAt = now.Add(s.refill)
	}
	return &pendingRequest{now, s.ended}
}

// pause returns how long the server's pause still is.
func (s *server) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.pausedUntil)
}

// unused reports whether nothing that is known about the server delays requests now.
func (s *server) unused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight == 0 && time.Since(s.pausedUntil) > time.Second && time.Since(s.refillAt) > 0
}

// end ends a request that was accepted. The response is nil if there was none; err is the error then.
func (s *server) end(p *pendingRequest, sent bool, response *http.Response, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	uncounted := s.ended - p.ended + s.inFlight // the requests that the server may not have counted when it answered
	s.ended++
	now := time.Now()
	var failed *net.OpError
	switch {
	case response != nil:
		reported := readQuota(response.Header)
		s.updatePause(p, now, response, reported.wait)
		s.updateQuota(now, reported, uncounted)
	case !sent, errors.As(err, &failed) && failed.Op == "dial":
		s.remaining++ // the server did not count it
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// updateQuota takes in the quota that a response reports, if it reports one.
func (s *server) updateQuota(now time.Time, reported reportedQuota, uncounted int64) {
	if !reported.valid {
		s.limited = now.Before(s.expiresAt)
		return
	}
	if !s.limited {
		s.limited, s.remaining, s.refillAt = true, 0, now
	}
	s.remaining = min(max(s.remaining, reported.remaining-uncounted), reported.remaining)
	wait := min(max(reported.wait, time.Second), maxWait) // a server that reports no time is probed soon
	s.refill, s.expiresAt = min(wait, time.Minute), now.Add(wait)
	// Responses can overtake each other. So an earlier time counts only if no other request was in flight.
	if uncounted == 0 || s.expiresAt.After(s.refillAt) {
		s.refillAt = s.expiresAt
	}
}

// updatePause starts a pause after a 429 or 503: for its Retry-After, else for the time that its
// RateLimit reports, else by exponential backoff. A time of 0 counts as none. Otherwise clients would
// send as many requests as the server can deny.
func (s *server) updatePause(p *pendingRequest, now time.Time, response *http.Response, reported time.Duration) {
	refused := asksToWait(response)
	switch {
	case p.acceptedAt.Before(s.pausedUntil): // it was sent before the last pause, so it says nothing new
	case refused:
		s.failures++
	default:
		s.failures = 0
	}
	if !refused {
		return
	}
	backoff := time.Second << min(max(s.failures-1, 0), 30)
	wait := cmp.Or(readRetryAfter(now, response.Header), reported, backoff)
	if until := now.Add(min(wait, maxWait)); until.After(s.pausedUntil) {
		s.pausedUntil, s.sinceThen = until, 0
	}
}

// asksToWait reports whether the server refused the request for now.
func asksToWait(response *http.Response) bool {
	return response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable
}
