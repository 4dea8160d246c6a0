package calendar

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
)

// State is the use of one key. [fixedwindow.AppendState] and [fixedwindow.ParseState] encode and decode it.
type State = fixedwindow.State

// Step decides a request of o.Cost units at now. With invalid options it denies, with a RetryAfter of [algo.Never].
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	return fixedwindow.Step(s, now, o.fixed(s, now))
}

// Peek decides like Step, but charges nothing.
func Peek(s State, now time.Time, o Options) algo.Result {
	return fixedwindow.Peek(s, now, o.fixed(s, now))
}

// Refund gives back o.Cost units, but no more than were used in the window.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	return fixedwindow.Refund(s, now, o.fixed(s, now))
}

// Charge takes o.Cost units, even if that leaves a debt, which ends with the window: that of s.Start if now is before it. At most
// [algo.MaxLevel] units are in use.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	return fixedwindow.Charge(s, now, o.fixed(s, now))
}

// fixed returns the options of fixed windows by the clock, of which one is the window of now, or that of s if it is later. If o is not
// valid, neither are they.
func (o *Options) fixed(s State, now time.Time) fixedwindow.Options {
	if o.Validate() != nil {
		return fixedwindow.Options{Cost: o.Cost}
	}
	at := algo.Instant(now)
	if s.Used > 0 {
		at = max(at, min(s.Start, algo.MaxInstant))
	}
	start, end := o.window(at)
	return fixedwindow.Options{
		Limit: algo.Per(o.Count, time.Duration(end-start)*time.Microsecond), Align: fixedwindow.AlignClock,
		Offset: time.Duration(start) * time.Microsecond, Cost: o.Cost,
	}
}
