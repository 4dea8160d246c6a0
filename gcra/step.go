package gcra

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
)

// Step decides a request of o.Cost units at now. It is total: any state, any
// time and any options give an answer. Options that [New] would refuse deny
// everything, for ever.
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	if !step(&next, &s, algo.Instant(now), &o, &r) {
		next = s
	}
	return next, r
}

// Peek answers what Step would, but pays nothing.
func Peek(s State, now time.Time, o Options) (r algo.Result) {
	peek(&s, algo.Instant(now), &o, &r)
	return r
}

// Refund gives o.Cost units back, up to full.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	if !refund(&next, &s, algo.Instant(now), &o, &r) {
		next = s
	}
	return next, r
}

// Charge takes o.Cost units unconditionally. What is not there becomes a debt,
// of at most 2^62 units, or of an arrival time of 2^63-1 ns if that is less.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	if !charge(&next, &s, algo.Instant(now), &o, &r) {
		next = s
	}
	return next, r
}

// step fills in the zero Result r and reports whether the state changes; only
// then is next written. Its siblings work alike.
func step(next, s *State, now int64, o *Options, r *algo.Result) bool {
	var a account
	if !a.open(s, now, o, r) {
		return false
	}
	if r.Allowed = r.Cost <= a.units; r.Allowed {
		a.pay(r.Cost, r)
	} else {
		r.RetryAfter = a.retry(r)
	}
	a.close(r)
	if r.Allowed {
		a.keep(next)
	}
	return r.Allowed
}

func peek(s *State, now int64, o *Options, r *algo.Result) {
	var a account
	if !a.open(s, now, o, r) {
		return
	}
	if r.Allowed = r.Cost <= a.units; !r.Allowed {
		r.RetryAfter = a.retry(r)
	}
	a.close(r)
}

func refund(next, s *State, now int64, o *Options, r *algo.Result) bool {
	var a account
	if !a.open(s, now, o, r) {
		return false
	}
	r.Allowed = true
	if r.Fresh {
		a.close(r)
		return false
	}
	a.repay(r.Cost, r)
	a.close(r)
	a.keep(next)
	return true
}

func charge(next, s *State, now int64, o *Options, r *algo.Result) bool {
	var a account
	if !a.open(s, now, o, r) {
		return false
	}
	r.Allowed = true
	a.pay(min(r.Cost, a.room()), r)
	a.close(r)
	if r.Paid > 0 {
		a.keep(next)
	}
	return r.Paid > 0
}

// An account is a key's backlog in exact integers. A unit of use weighs Period,
// and Count of that weight drains every nanosecond, so that comparing takes no
// division:
//
//	backlog = (TAT - now) * Count      capacity = Burst * Period
type account struct {
	now, at       int64 // at: the last step that paid, once this one has
	count, period int64
	backlog       u128.Uint
	capacity      u128.Uint
	units, part   int64 // what is left of the capacity: whole units, and part/period of the next
	wait, frac    int64 // until the backlog is drained: ns, and frac/count of one
}

// open settles the state at now. It reports whether the options are valid; where
// they are not, r is the denial.
func (a *account) open(s *State, now int64, o *Options, r *algo.Result) bool {
	r.Limit, r.Cost = o.burst(), o.cost()
	a.capacity = u128.Mul(r.Limit, int64(o.Limit.Period))
	if !o.inRange() || !o.spans(a.capacity) {
		r.Limit, r.RetryAfter = 0, algo.Never
		return false
	}
	if s.Limit.Count != o.Limit.Count || s.Limit.Period != o.Limit.Period || !s.isNormal() {
		rescaled := s.normal().rescaled(o.Limit)
		s = &rescaled
	}
	a.now, a.at = now, max(s.At, now)
	a.count, a.period = o.Limit.Count, int64(o.Limit.Period)
	r.Skew = time.Duration(a.at - now)
	if s.TAT < now || s.TAT == now && s.Frac == 0 {
		r.Fresh, r.Refilled, a.units = true, r.Limit, r.Limit
		return true
	}
	a.backlog = a.backlogAt(s, now)
	a.units, a.part = a.left(a.backlog)
	r.Refilled = a.refilled(s)
	r.Available = a.units - r.Refilled
	return true
}

// refilled is how many whole units came back since the last step that paid.
func (a *account) refilled(s *State) int64 {
	if s.At >= a.now {
		return 0
	}
	drained := u128.Mul(a.now-s.At, a.count).Sub(u128.From(a.part))
	if drained.Hi == 0 && drained.Lo <= uint64(a.period) { // the common case needs no division
		return int64(min(drained.Lo, 1))
	}
	return drained.CeilDiv(a.period)
}

func (a *account) backlogAt(s *State, instant int64) u128.Uint {
	return u128.Mul(s.TAT-instant, a.count).Add(u128.From(s.Frac))
}

// left is what a backlog leaves of the capacity: whole units, rounded down, and
// the rest of that division by the period. A debt is negative.
func (a *account) left(backlog u128.Uint) (units, part int64) {
	if !a.capacity.Less(backlog) {
		return a.capacity.Sub(backlog).DivMod(a.period)
	}
	units, part = backlog.Sub(a.capacity).DivMod(a.period)
	if part > 0 {
		units, part = units+1, a.period-part
	}
	return -units, part
}

// retry is how long until the cost is there, where it is not there now.
func (a *account) retry(r *algo.Result) time.Duration {
	if r.Cost > r.Limit {
		return algo.Never
	}
	level := a.backlog.Add(u128.Mul(r.Cost, a.period))
	return time.Duration(level.Sub(a.capacity).CeilDiv(a.count))
}

// room is the most that can be charged before the state would leave its range.
func (a *account) room() int64 {
	most := u128.Mul(algo.MaxCount, a.period)
	if last := u128.Mul(math.MaxInt64-a.now, a.count); last.Less(most) {
		most = last
	}
	units, _ := most.Sub(a.backlog).DivMod(a.period)
	return units
}

func (a *account) pay(units int64, r *algo.Result) {
	r.Paid = units
	a.units -= units
	a.backlog = a.backlog.Add(u128.Mul(units, a.period))
}

func (a *account) repay(units int64, r *algo.Result) {
	r.Paid = a.units
	a.backlog = a.backlog.Sub(u128.Mul(units, a.period))
	a.units, a.part = a.left(a.backlog)
	r.Paid -= a.units
}

// close completes the result with what stands now.
func (a *account) close(r *algo.Result) {
	r.Remaining = a.units
	if a.backlog.IsZero() {
		return
	}
	a.wait, a.frac = a.backlog.DivMod(a.count)
	r.ResetAfter = time.Duration(a.wait)
	if a.frac > 0 {
		r.ResetAfter++
	}
	r.NextRefill = time.Duration(u128.From(a.period - a.part).CeilDiv(a.count))
}

// keep writes the closed account down: a backlog of nothing is a key never seen.
func (a *account) keep(next *State) {
	if a.backlog.IsZero() {
		*next = State{}
		return
	}
	next.TAT, next.Frac = a.now+a.wait, a.frac
	next.At = min(a.at, next.TAT)
	next.Limit.Count, next.Limit.Period = a.count, time.Duration(a.period)
}

// rescaled is the state under another limit: the same units used as of At.
func (s State) rescaled(to algo.Limit) State {
	if s == (State{}) {
		return s
	}
	used := u128.Mul(s.TAT-s.At, s.Limit.Count).Add(u128.From(s.Frac))
	if s.Limit.Period != to.Period {
		used = used.MulDiv(int64(to.Period), int64(s.Limit.Period))
	}
	wait, frac := used.DivMod(to.Count)
	if wait > math.MaxInt64-s.At {
		wait, frac = math.MaxInt64-s.At, 0
	}
	return State{TAT: s.At + wait, Frac: frac, At: s.At, Limit: to}
}
