package movingwindow

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// Step decides a request of o.Cost units at now. With invalid options it denies, with a RetryAfter of [algo.Never]. With o.PaidAt
// it moves units instead.
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = s
	if !decideWith(&o, &next, now, &r, policy.Step) {
		return s, r
	}
	return next, r
}

// Peek decides like Step, but charges nothing.
func Peek(s State, now time.Time, o Options) (r algo.Result) {
	decideWith(&o, &s, now, &r, policy.Peek)
	return r
}

// Refund gives back o.Cost units, but no more than are in use, from the newest slot to older ones. With o.PaidAt it takes only
// units of the slot of that time.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = s
	if !decideWith(&o, &next, now, &r, policy.Refund) {
		return s, r
	}
	return next, r
}

// Charge takes o.Cost units, even if that leaves a debt, which ends at the latest when the current slot has left the window. It
// takes fewer beyond the range of the arithmetic, which is more than twice the limit.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = s
	if !decideWith(&o, &next, now, &r, policy.Charge) {
		return s, r
	}
	return next, r
}

// decideWith calls decide with options that may not be valid.
func decideWith(o *Options, s *State, now time.Time, r *algo.Result, op policy.Op) (changed bool) {
	r.Cost = policy.Or(o.Cost, 1)
	var args arguments
	o.arguments(&args)
	return decide(&args, s, algo.Instant(now), r, op)
}

// arguments are those of the programs in Lua and SQL.
type arguments struct {
	limit  int64 // 0 if the options are not valid
	width  int64 // of a slot, in microseconds
	slots  int64 // of the window
	grain  int64 // the overlap of the trailing slot with the window is rounded up to this number of microseconds
	weight int64 // of a unit: the overlap of the whole slot, in grains
	most   int64 // the largest sum of all counts after a charge; a step can add up to limit
	paidAt int64 // 1 + the instant of Options.PaidAt; 0 if it is not set
}

// decide fills in r, of which only Cost is set. If it returns true, it has made s the next state. Otherwise s has no meaning
// afterwards. step.lua and step.sql have the same lines, without those for r.
//
// The units of the trailing slot weigh their overlap, and all others weight. The comparison of weights is exact.
func decide(args *arguments, s *State, now int64, r *algo.Result, op policy.Op) (changed bool) {
	limit, width, slots, cost := args.limit, args.width, args.slots, r.Cost
	if limit == 0 {
		r.RetryAfter = algo.Never
		return false
	}
	if !s.fits(args) {
		if *s = s.normalized(); !s.fits(args) {
			*s = s.resized(args)
		}
	}
	last := s.At / width // the number of the slot
	recent, trailing := s.sum(slots)
	before := limit - args.used(recent, trailing, s.At-last*width)

	at := now
	if s.At > now && !s.isEmpty() {
		at = s.At
	}
	current := at / width
	into := at - current*width
	s.age(current-last, slots)
	recent, trailing = s.sum(slots)
	left := limit - args.used(recent, trailing, into)

	paid := int64(0)
	newest, oldest := int64(0), slots // of the slots that give units back
	if args.paidAt > 0 {
		newest = current - (args.paidAt-1)/width
		oldest = newest
	}
	r.Fresh, r.Allowed = recent+trailing == 0, true
	switch {
	case op == policy.Refund:
		changed = s.giveBack(cost, newest, oldest) > 0
		recent, trailing = s.sum(slots)
		paid = left - (limit - args.used(recent, trailing, into))
	case op == policy.Charge:
		paid = max(0, min(cost, args.most-recent-trailing))
	case args.paidAt > 0:
		if newest < 0 || s.count(newest) < cost {
			r.Allowed, r.RetryAfter = false, algo.Never
		} else if changed = op == policy.Step; changed {
			s.counts()[newest] -= cost
			s.counts()[0] += cost
			recent, _ = s.sum(slots)
		}
	case cost > limit:
		r.Allowed, r.RetryAfter = false, algo.Never
	case cost > left:
		r.Allowed, r.RetryAfter = false, args.wait(s, at-into, limit-cost-recent, now)
	case op == policy.Step:
		paid = cost
	}
	if paid > 0 {
		changed = true
		s.counts()[0] += paid
		recent += paid
	}

	r.Limit, r.Paid, r.Remaining = limit, paid, left-paid
	if r.Fresh {
		r.Refilled = limit
	} else {
		r.Refilled, r.Skew = left-before, time.Duration(at-now)*time.Microsecond
	}
	r.Available = left - r.Refilled
	if newest = s.newest(slots); newest < 0 {
		*s = State{}
		return changed
	}
	r.NextRefill = args.wait(s, at-into, limit-r.Remaining-1-recent, now)
	r.ResetAfter = time.Duration(at-into+(slots+1-newest)*width-now) * time.Microsecond
	s.At = at
	return changed
}

// used returns the units in use, that far into the current slot. Those of the trailing slot are rounded up.
func (args *arguments) used(recent, trailing, into int64) int64 {
	if trailing == 0 {
		return recent
	}
	overlap := min(args.weight, policy.Ceil(args.width-into, args.grain))
	return recent + policy.Ceil(trailing*overlap, args.weight)
}

// wait returns the time from now until at most room units of the trailing slot count. If room is negative, the trailing
// slot and that many units of newer slots must expire. begin is the begin of the current slot. More than room units must
// count at the time of the state.
//
// With every slot that passes, the oldest count in the window becomes the trailing one. The loop finds the newest count
// that has to expire, fully or in part. The wait ends when at most room units of it still count.
func (args *arguments) wait(s *State, begin, room, now int64) time.Duration {
	slot := args.slots
	trailing := s.count(slot)
	for room < 0 {
		slot--
		trailing = s.count(slot)
		room += trailing
	}
	end := begin + (args.slots-slot+1)*args.width
	return time.Duration(end-room*args.weight/trailing*args.grain-now) * time.Microsecond
}
