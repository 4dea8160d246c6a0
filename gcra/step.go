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
func Step(s State, now time.Time, o Options) (State, algo.Result) {
	if !o.valid() {
		return s, refused(o)
	}
	next, r := step(s.normal(), algo.Instant(now), o)
	if !r.Allowed {
		return s, r
	}
	return next, r
}

// Peek answers what Step would, but pays nothing.
func Peek(s State, now time.Time, o Options) algo.Result {
	if !o.valid() {
		return refused(o)
	}
	return peek(s.normal(), algo.Instant(now), o)
}

// Refund gives o.Cost units back, up to full.
func Refund(s State, now time.Time, o Options) (State, algo.Result) {
	if !o.valid() {
		return s, refused(o)
	}
	return refund(s.normal(), algo.Instant(now), o)
}

// Charge takes o.Cost units unconditionally. What is not there becomes a debt,
// of at most 2^62 units, or of an arrival time of 2^63-1 ns if that is less.
func Charge(s State, now time.Time, o Options) (State, algo.Result) {
	if !o.valid() {
		return s, refused(o)
	}
	return charge(s.normal(), algo.Instant(now), o)
}

func refused(o Options) algo.Result {
	return algo.Result{Cost: o.cost(), RetryAfter: algo.Never}
}

func step(s State, now int64, o Options) (State, algo.Result) {
	a := open(s, now, o)
	if !a.admit() {
		return s, a.result()
	}
	a.pay(a.r.Cost)
	return a.state(o.Limit), a.result()
}

func peek(s State, now int64, o Options) algo.Result {
	a := open(s, now, o)
	a.admit()
	return a.result()
}

func refund(s State, now int64, o Options) (State, algo.Result) {
	a := open(s, now, o)
	a.r.Allowed = true
	if a.backlog.IsZero() {
		return s, a.result()
	}
	before := a.units
	a.backlog = a.backlog.Sub(u128.Mul(a.r.Cost, a.period))
	a.units, a.part = a.left(a.backlog)
	a.r.Paid = before - a.units
	return a.state(o.Limit), a.result()
}

func charge(s State, now int64, o Options) (State, algo.Result) {
	a := open(s, now, o)
	a.r.Allowed = true
	most := u128.Mul(algo.MaxCount, a.period)
	if lastTAT := u128.Mul(math.MaxInt64-now, a.count); lastTAT.Less(most) {
		most = lastTAT
	}
	room, _ := most.Sub(a.backlog).DivMod(a.period)
	a.pay(min(a.r.Cost, room))
	return a.state(o.Limit), a.result()
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
	units, part   int64 // what is left of the capacity: whole units, and of the next one part/period
	r             algo.Result
}

// open settles the state at now.
func open(s State, now int64, o Options) (a account) {
	a.now, a.count, a.period = now, o.Limit.Count, int64(o.Limit.Period)
	a.r.Limit, a.r.Cost = o.burst(), o.cost()
	a.capacity = u128.Mul(a.r.Limit, a.period)
	if s.Limit != o.Limit {
		s = s.rescaled(o.Limit)
	}
	a.at = max(s.At, now)
	a.r.Skew = time.Duration(a.at - now)
	if s.TAT < now || s.TAT == now && s.Frac == 0 {
		a.r.Fresh, a.r.Refilled, a.units = true, a.r.Limit, a.r.Limit
		return a
	}
	a.backlog = a.backlogAt(s, now)
	a.units, a.part = a.left(a.backlog)
	a.r.Available = a.units
	if s.At < now {
		a.r.Available, _ = a.left(a.backlogAt(s, s.At))
	}
	a.r.Refilled = a.units - a.r.Available
	return a
}

func (a *account) backlogAt(s State, instant int64) u128.Uint {
	return u128.Mul(s.TAT-instant, a.count).Add(u128.From(s.Frac))
}

// left is what a backlog leaves of the capacity, rounded down to whole units,
// and the rest of the division by the period. A debt is negative.
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

// admit decides whether the cost fits below the capacity.
func (a *account) admit() bool {
	a.r.Allowed = a.r.Cost <= a.units
	if !a.r.Allowed {
		a.r.RetryAfter = a.wait(a.r.Cost)
	}
	return a.r.Allowed
}

// wait is how long until there are that many units, more than there are now.
func (a *account) wait(units int64) time.Duration {
	if units > a.r.Limit {
		return algo.Never
	}
	level := a.backlog.Add(u128.Mul(units, a.period))
	return time.Duration(level.Sub(a.capacity).CeilDiv(a.count))
}

func (a *account) pay(units int64) {
	a.r.Paid = units
	a.units -= units
	a.backlog = a.backlog.Add(u128.Mul(units, a.period))
}

// result completes the result with what stands now.
func (a *account) result() algo.Result {
	a.r.Remaining = a.units
	if !a.backlog.IsZero() {
		a.r.NextRefill = time.Duration(u128.From(a.period - a.part).CeilDiv(a.count))
		a.r.ResetAfter = time.Duration(a.backlog.CeilDiv(a.count))
	}
	return a.r
}

// state is the account as it is kept: a backlog of nothing is a key never seen.
func (a *account) state(limit algo.Limit) State {
	if a.backlog.IsZero() {
		return State{}
	}
	wait, frac := a.backlog.DivMod(a.count)
	tat := a.now + wait
	return State{TAT: tat, Frac: frac, At: min(a.at, tat), Limit: limit}
}

// rescaled is the state under another limit: the same units used as of At.
func (s State) rescaled(to algo.Limit) State {
	if s.Limit.Period < 1 {
		return State{}
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
