package inflight

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/movingwindow"
)

// State has the units that are held under one key. [movingwindow.AppendState] and [movingwindow.ParseState] encode and decode it.
type State = movingwindow.State

// Step takes o.Cost units at now, or none. RetryAfter assumes that none is released. With invalid options it denies, with a
// RetryAfter of [algo.Never].
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	return movingwindow.Step(s, now, o.window())
}

// Peek decides like Step, but charges nothing.
func Peek(s State, now time.Time, o Options) algo.Result {
	return movingwindow.Peek(s, now, o.window())
}

// Release gives o.Cost units back, or those that their slot still has. taken is the now of the Step that took them, or of the
// last Renew, plus the Skew of its result.
func Release(s State, now, taken time.Time, o Options) (next State, r algo.Result) {
	return movingwindow.Refund(s, now, o.held(taken))
}

// Renew holds o.Cost units for another TTL from now on. taken is as for Release. If their slot has fewer, Renew denies, with a
// RetryAfter of [algo.Never].
func Renew(s State, now, taken time.Time, o Options) (next State, r algo.Result) {
	return movingwindow.Step(s, now, o.held(taken))
}
