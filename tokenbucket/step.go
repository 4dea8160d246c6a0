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
	used, part, ok := open(s, now, t, cost, r)
	if !ok {
		return false
	}
	if cost > t.burst-used {
		t.deny(used, part, r)
		return false
	}
	r.Allowed, r.Paid = true, cost
	used += cost
	t.conclude(used, part, r)
	t.keep(next, used, part, now, r)
	return true
}

func peek(s *State, now int64, t *terms, cost int64, r *algo.Result) {
	used, part, ok := open(s, now, t, cost, r)
	if !ok {
		return
	}
	if cost > t.burst-used {
		t.deny(used, part, r)
		return
	}
	r.Allowed = true
	t.conclude(used, part, r)
}

func refund(next, s *State, now int64, t *terms, cost int64, r *algo.Result) bool {
	used, part, ok := open(s, now, t, cost, r)
	if !ok {
		return false
	}
	r.Allowed, r.Paid = true, -min(cost, used)
	used += r.Paid
	t.conclude(used, part, r)
	t.keep(next, used, part, now, r)
	return r.Paid < 0
}

func charge(next, s *State, now int64, t *terms, cost int64, r *algo.Result) bool {
	used, part, ok := open(s, now, t, cost, r)
	if !ok {
		return false
	}
	r.Allowed, r.Paid = true, min(cost, t.room(used, now+int64(r.Skew)))
	used += r.Paid
	t.conclude(used, part, r)
	t.keep(next, used, part, now, r)
	return r.Paid > 0
}

// open settles the state at now, or at its own time where that is later: how
// many tokens are missing, and what has accrued of the next refill. Where the
// options or the cost are not valid it is not ok, and r is the denial.
func open(s *State, now int64, t *terms, cost int64, r *algo.Result) (used, part int64, ok bool) {
	r.Cost = cost
	if t.batch == 0 || cost < 1 {
		r.RetryAfter = algo.Never
		return 0, 0, false
	}
	r.Limit = t.burst
	if !s.isNormal(t.period) {
		under := s.under(t)
		s = &under
	}
	used, part = s.Used, s.Part
	var back int64
	switch since := now - s.At; {
	case used == 0:
	case since < 0:
		r.Skew = time.Duration(-since)
	default:
		back, part = t.accrue(since, part)
	}
	if back >= used {
		r.Fresh, r.Refilled = true, t.burst
		return 0, 0, true
	}
	r.Available, r.Refilled = t.burst-used, back
	return used - back, part, true
}

// keep writes down what stands at now: nothing used is a key never seen.
func (t *terms) keep(next *State, used, part, now int64, r *algo.Result) {
	if used > 0 {
		*next = State{used, now + int64(r.Skew), part, time.Duration(t.period)}
	}
}

// accrue is how many tokens come back in that many ns, and what has accrued of
// the next refill then.
func (t *terms) accrue(ns, part int64) (tokens, rest int64) {
	weight := u128.Mul(ns, t.speed).Add(u128.From(part))
	if period := uint64(t.period); weight.Hi == 0 && weight.Lo < 2*period { // the common cases need no division
		if weight.Lo < period {
			return 0, int64(weight.Lo)
		}
		return t.batch, int64(weight.Lo - period)
	}
	refills, rest := weight.DivMod(t.period)
	if t.batch > 1 {
		refills, _ = u128.Mul(refills, t.batch).DivMod(1)
	}
	return refills, rest
}

// deny says how long until the cost is there, where it is not there now.
func (t *terms) deny(used, part int64, r *algo.Result) {
	t.conclude(used, part, r)
	if r.Cost > t.burst {
		r.RetryAfter = algo.Never
		return
	}
	r.RetryAfter = t.regain(r.Cost-r.Remaining, t.period-part, r)
}

// conclude says what stands now.
func (t *terms) conclude(used, part int64, r *algo.Result) {
	r.Remaining = t.burst - used
	if used > 0 {
		due := t.period - part
		r.NextRefill = r.Skew + time.Duration(t.ceil(uint64(due)))
		r.ResetAfter = t.regain(used, due, r)
	}
}

// regain is how long until that many tokens have come back, where the next
// refill is one and short of that weight.
func (t *terms) regain(tokens, due int64, r *algo.Result) time.Duration {
	refills := t.refills(tokens)
	if refills == 1 {
		return r.NextRefill
	}
	weight := u128.Mul(refills-1, t.period).Add(u128.From(due))
	if weight.Hi == 0 && weight.Lo < algo.MaxCount {
		return r.Skew + time.Duration(t.ceil(weight.Lo))
	}
	ns := weight.CeilDiv(t.speed)
	if ns > math.MaxInt64-int64(r.Skew) {
		return math.MaxInt64
	}
	return r.Skew + time.Duration(ns)
}

// ceil is the ns in which that weight accrues, of which there is some.
func (t *terms) ceil(weight uint64) int64 {
	return int64((weight-1)/uint64(t.speed)) + 1
}

// room is the most that can be charged before the state would leave its range.
func (t *terms) room(used, at int64) int64 {
	refills, _ := u128.Mul(math.MaxInt64-at, t.speed).DivMod(t.period)
	most := u128.Mul(refills, t.batch)
	if u128.From(algo.MaxCount).Less(most) {
		return algo.MaxCount - used
	}
	return max(0, int64(most.Lo)-used)
}
