package config

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
)

// Outcome is how a request to an upstream has ended.
type Outcome int

// The outcomes.
const (
	Answered       Outcome = iota // the upstream has sent a response
	UpstreamFailed                // it has not, and that is its fault
	Abandoned                     // it has not, because the request ended before; for instance, the client left
)

// tracked is the outcome of a request.
type tracked struct {
	Outcome
	sent atomic.Bool // there was a connection to the upstream
}

type outcomeKey struct{} // of the context of a request

// TrackOutcome returns a copy of the request, for the upstream. After [SetOutcome], rules of [File.HTTPRules] that need the response
// know that its status is not that of the upstream.
func TrackOutcome(r *http.Request) *http.Request {
	t := new(tracked)
	ctx := context.WithValue(r.Context(), outcomeKey{}, t)
	return r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { t.sent.Store(true) }}))
}

// SetOutcome sets the outcome of a request of [TrackOutcome], before it is settled.
func SetOutcome(r *http.Request, outcome Outcome) { trackedOf(r).Outcome = outcome }

// trackedOf returns the outcome of a request. Without TrackOutcome it is Answered.
func trackedOf(r *http.Request) *tracked {
	if t, ok := r.Context().Value(outcomeKey{}).(*tracked); ok {
		return t
	}
	return new(tracked)
}

// charges reports whether a request is charged in the end. If the upstream has not answered, it may still have done its work, so the
// charge stays under a rule that counts a status below 500. Otherwise clients could bypass the rule by ending their requests. If there
// was no connection to the upstream, it has done nothing.
func (r *Rule) charges(status int, t *tracked) bool {
	countsBelow500 := len(r.Count) == 0 || slices.ContainsFunc(r.Count, func(s Statuses) bool { return s.First < http.StatusInternalServerError })
	switch {
	case t.Outcome == Answered:
	case t.sent.Load() && countsBelow500:
		return true
	case t.Outcome == Abandoned || len(r.Count) == 0:
		return false
	}
	return r.Counts(status)
}
