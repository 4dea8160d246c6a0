package config

import (
	"context"
	"net/http"
	"slices"
)

// Outcome is how a request to an upstream has ended.
type Outcome int

// The outcomes.
const (
	Answered       Outcome = iota // the upstream has sent a response, or it did not get the request
	UpstreamFailed                // it has not, and that is its fault
	Abandoned                     // it has not, because the request ended before; for instance, the client left
)

type outcomeKey struct{} // of the context of a request

// TrackOutcome returns a copy of the request. After [SetOutcome], rules of [File.HTTPRules] that count statuses know that the
// status of its response is not that of the upstream.
func TrackOutcome(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), outcomeKey{}, new(Outcome)))
}

// SetOutcome sets the outcome of a request of [TrackOutcome], before it is settled.
func SetOutcome(r *http.Request, outcome Outcome) {
	if tracked, ok := r.Context().Value(outcomeKey{}).(*Outcome); ok {
		*tracked = outcome
	}
}

func outcomeOf(r *http.Request) Outcome {
	if tracked, ok := r.Context().Value(outcomeKey{}).(*Outcome); ok {
		return *tracked
	}
	return Answered
}

// charges reports whether a request is charged in the end. If the upstream has not answered, it may still have done its work, so the
// charge stays under a rule that counts a status below 500. Otherwise clients could bypass the rule by ending their requests.
func (r *Rule) charges(status int, outcome Outcome) bool {
	countsBelow500 := len(r.Count) == 0 || slices.ContainsFunc(r.Count, func(s Statuses) bool { return s.First < http.StatusInternalServerError })
	switch {
	case outcome != Answered && countsBelow500:
		return true
	case outcome == Abandoned:
		return false
	}
	return r.Counts(status)
}
