package tokenbucket

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
)

// Step decides a request of o.Cost tokens at now. It is total: any state, any
// time and any options give an answer. Options that [New] would refuse deny
// everything, for ever.
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	t := o.terms()
	if !step(&next, &s, algo.Instant(now), &t, o.cost(), &r) {
		next = s
	}
	return next, r
}

// Peek answers what Step would, but pays nothing.
func Peek(s State, now time.Time, o Options) (r algo.Result) {
	t := o.terms()
	peek(&s, algo.Instant(now), &t, o.cost(), &r)
	return r
}

// Refund gives o.Cost tokens back, up to full.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	t := o.terms()
	if !refund(&next, &s, algo.Instant(now), &t, o.cost(), &r) {
		next = s
	}
	return next, r
}

// Charge takes o.Cost tokens unconditionally. What is not there becomes a debt,
// of at most 2^62 tokens, or of what is regained by 2^63-1 ns if that is less.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	t := o.terms()
	if !charge(&next, &s, algo.Instant(now), &t, o.cost(), &r) {
		next = s
	}
	return next, r
}

// step fills in the zero Result r and reports whether the state changes; only
// then is next written. Its siblings work alike.
func step(next, s *State, now int64, t *terms, cost int64, r *algo.Result) bool {
	var a account
	if !a.open(s, now, t, cost, r) {
		return false
	}
	if r.Allowed = cost <= t.burst-a.used; r.Allowed {
		r.Paid = cost
		a.used += cost
	} else {
		r.RetryAfter = a.retry(t, cost)
	}
	a.close(t, r)
	if r.Allowed {
		a.keep(next)
	}
	return r.Allowed
}

func peek(s *State, now int64, t *terms, cost int64, r *algo.Result) {
	var a account
	if !a.open(s, now, t, cost, r) {
		return
	}
	if r.Allowed = cost <= t.burst-a.used; !r.Allowed {
		r.RetryAfter = a.retry(t, cost)
	}
	a.close(t, r)
}

func refund(next, s *State, now int64, t *terms, cost int64, r *algo.Result) bool {
	var a account
	if !a.open(s, now, t, cost, r) {
		return false
	}
	r.Allowed = true
	r.Paid = -min(cost, a.used)
	a.used += r.Paid
	a.close(t, r)
	if r.Paid < 0 {
		a.keep(next)
	}
	return r.Paid < 0
}

func charge(next, s *State, now int64, t *terms, cost int64, r *algo.Result) bool {
	var a account
	if !a.open(s, now, t, cost, r) {
		return false
	}
	r.Allowed = true
	r.Paid = min(cost, a.room(t))
	a.used += r.Paid
	a.close(t, r)
	if r.Paid > 0 {
		a.keep(next)
	}
	return r.Paid > 0
}

// An account is a key's use, settled at an instant.
type account struct {
	used  int64 // tokens missing
	part  int64 // of the period's weight, what has accrued of the next refill
	at    int64 // the instant: now, or the state's own time where that is later
	ahead int64 // of now
}

// open settles the state at now. It reports whether the options are valid; where
// they are not, r is the denial.
func (a *account) open(s *State, now int64, t *terms, cost int64, r *algo.Result) bool {
	r.Cost = cost
	if t.batch == 0 || cost < 1 {
		r.RetryAfter = algo.Never
		return false
	}
	if !s.isNormal() {
		normal := s.normal()
		s = &normal
	}
	r.Limit = t.burst
	a.at, a.used, a.part = now, s.Used, min(s.Part, t.period-1)
	if s.At > now {
		a.at, a.ahead = s.At, s.At-now
		r.Skew = time.Duration(a.ahead)
	}
	back := a.refill(a.at-s.At, t)
	if a.used == 0 {
		a.part = 0
		r.Fresh, r.Refilled = true, t.burst
		return true
	}
	r.Available, r.Refilled = t.burst-s.Used, back
	return true
}

// refill gives back what came in that many ns, and tells how much it was.
func (a *account) refill(ns int64, t *terms) int64 {
	weight := u128.Mul(ns, t.speed).Add(u128.From(a.part))
	if weight.Hi == 0 && weight.Lo < uint64(t.period) { // the common case needs no division
		a.part = int64(weight.Lo)
		return 0
	}
	var refills int64
	refills, a.part = weight.DivMod(t.period)
	tokens := u128.Mul(refills, t.batch)
	back := a.used
	if tokens.Less(u128.From(back)) {
		back = int64(tokens.Lo)
	}
	a.used -= back
	return back
}

// retry is how long until the cost is there, where it is not there now.
func (a *account) retry(t *terms, cost int64) time.Duration {
	if cost > t.burst {
		return algo.Never
	}
	return a.regain(t, cost-(t.burst-a.used))
}

// regain is how long until that many tokens have come back.
func (a *account) regain(t *terms, tokens int64) time.Duration {
	weight := u128.Mul(t.refills(tokens), t.period).Sub(u128.From(a.part))
	ns := weight.CeilDiv(t.speed)
	if ns > math.MaxInt64-a.ahead {
		return math.MaxInt64
	}
	return time.Duration(a.ahead + ns)
}

// room is the most that can be charged before the state would leave its range.
func (a *account) room(t *terms) int64 {
	refills, _ := u128.Mul(math.MaxInt64-a.at, t.speed).DivMod(t.period)
	most := u128.Mul(refills, t.batch)
	if u128.From(algo.MaxCount).Less(most) {
		return algo.MaxCount - a.used
	}
	return max(0, int64(most.Lo)-a.used)
}

// close completes the result with what stands now.
func (a *account) close(t *terms, r *algo.Result) {
	r.Remaining = t.burst - a.used
	if a.used == 0 {
		return
	}
	r.NextRefill = a.regain(t, 1)
	r.ResetAfter = a.regain(t, a.used)
}

// keep writes the account down: nothing used is a key never seen.
func (a *account) keep(next *State) {
	if a.used == 0 {
		*next = State{}
		return
	}
	next.Used, next.At, next.Part = a.used, a.at, a.part
}
