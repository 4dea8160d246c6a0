package fixedwindow

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// Step decides a request of o.Cost units at now. With invalid options it denies, with a RetryAfter of [algo.Never].
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideWith(&o, s, now, &r, policy.Step)
	return next, r
}

// Peek decides like Step, but charges nothing.
func Peek(s State, now time.Time, o Options) (r algo.Result) {
	decideWith(&o, s, now, &r, policy.Peek)
	return r
}

// Refund gives back o.Cost units, but no more than are in use in the window that is open at now. If none are left, it closes the
// window.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideWith(&o, s, now, &r, policy.Refund)
	return next, r
}

// Charge takes o.Cost units, even if that leaves a debt, which ends with the window. At most [algo.MaxLevel] units are in use.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = decideWith(&o, s, now, &r, policy.Charge)
	return next, r
}

// decideWith decides with options that may not be valid.
func decideWith(o *Options, s State, now time.Time, r *algo.Result, op policy.Op) State {
	r.Cost = policy.Or(o.Cost, 1)
	args := o.arguments()
	return decide(&args, s, algo.Instant(now), r, op)
}

// arguments are those of the programs in Lua and SQL.
type arguments struct {
	limit  int64 // 0 if the options are not valid
	period int64 // in microseconds
	offset int64 // of the windows by the clock, from 0 and below period; -1 if each window opens with a request
}

// decide fills in r, of which only Cost is set. It returns the next state, or s if nothing is paid. step.lua and step.sql
// have the same lines, without those for r.
func decide(args *arguments, s State, now int64, r *algo.Result, op policy.Op) State {
	limit, cost := args.limit, r.Cost
	if limit == 0 {
		r.RetryAfter = algo.Never
		return s
	}
	state := s.normalized()
	start, used := state.Start, state.Used
	before, end := used, args.end(start)
	if used == 0 || now >= end {
		start, used, end = now, 0, args.end(now)
	}

	paid := int64(0)
	r.Allowed = true
	switch {
	case op == policy.Refund:
		paid = -min(cost, used)
	case op == policy.Charge:
		paid = min(cost, algo.MaxLevel-used)
	case cost > limit:
		r.Allowed, r.RetryAfter = false, algo.Never
	case cost > limit-used:
		r.Allowed, r.RetryAfter = false, time.Duration(end-now)*time.Microsecond
	case op == policy.Step:
		paid = cost
	}

	r.Limit, r.Paid, r.Skew = limit, paid, time.Duration(max(0, start-now))*time.Microsecond
	r.Refilled = before - used
	if r.Fresh = used == 0; r.Fresh {
		r.Refilled = limit
	}
	used += paid
	r.Remaining = limit - used
	r.Available = r.Remaining + paid - r.Refilled
	if used > 0 {
		r.NextRefill = time.Duration(end-now) * time.Microsecond
		r.ResetAfter = r.NextRefill
	}

	switch {
	case paid == 0:
		return s
	case used == 0:
		return State{}
	}
	return State{start, used}
}

// end returns the end of the window that is opened at start.
func (args *arguments) end(start int64) int64 {
	if args.offset < 0 {
		return start + args.period
	}
	return start + args.period - (start+args.period-args.offset)%args.period
}
