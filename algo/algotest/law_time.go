package algotest

import (
	"bytes"
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// clockMayStepBack compares an event, by a clock that stepped back, with the same event at the time of the latest event
// that changed the state. The state knows no other time.
func clockMayStepBack(p *point) {
	p.requireSkew()
	latest := p.past.time
	if p.now >= latest {
		return
	}
	for _, cost := range p.costs() {
		p.clearProbes()
		early := p.peek(p.state, p.now, cost)
		for _, at := range []int64{latest, min(latest+1, algo.MaxInstant)} {
			late := p.peek(p.state, at, cost)
			p.require(late.Allowed || !early.Allowed, "cost %d is allowed at %s, back from %s, but denied at %s", cost, offset(p.now), offset(latest), offset(at))
			p.require(early.Remaining <= late.Remaining, "%d units are left at %s, back from %s, but only %d at %s",
				early.Remaining, offset(p.now), offset(latest), late.Remaining, offset(at))
		}
		p.clearProbes()
		for _, op := range []op{step, refund, charge} {
			next, r := p.call(op, p.state, p.now, cost)
			if op == step && !r.Allowed || !isExact(r) {
				continue
			}
			if !p.subject.Composed || !p.past.hasRefund() { // which may leave one part full, and so without a time
				atLatest, _ := p.call(op, p.state, latest, cost)
				p.requireNoMoreUnits(op, cost, next, atLatest, latest)
			}
			if op != refund { // which may fill the key, and a full key has no time
				p.requireTimeKept(next)
			}
		}
	}
}

// requireSkew requires that Skew is the difference from now to the state's own time. That
// time is the time of an event, or less than one period before it.
func (p *point) requireSkew() {
	own := p.peek(p.state, 0, 1).Skew.Microseconds()
	skew := p.peek(p.state, p.now, 1).Skew
	p.require(skew == micros(max(0, own-p.now)), "Skew in 1970 is %v, but at %s it is %v", micros(own), offset(p.now), skew)
	for _, op := range []op{step, refund, charge} {
		_, r := p.call(op, p.state, p.now, 1)
		p.require(r.Skew == skew, "at %s Skew of a peek is %v, but of a %v it is %v", offset(p.now), skew, op, r.Skew)
	}
	p.require(own <= max(0, p.past.latest), "the state's time is %s, after the latest event at %s", offset(own), offset(p.past.latest))
	if !p.past.hasRefund() {
		p.require(own > p.past.time-p.limit.Period.Microseconds(), "the state's time is %s, long before the event at %s", offset(own), offset(p.past.time))
	}
}

// requireNoMoreUnits requires that from t on the state a never has more units than b. The
// state a follows an event at p.now, and b the same event at t.
func (p *point) requireNoMoreUnits(op op, cost int64, a, b []byte, t int64) {
	reset := p.peek(b, t, 1).ResetAfter
	for _, at := range []int64{t, t + 1, after(t, reset/2), after(t, reset) - 1} {
		if at < t || at > algo.MaxInstant {
			continue
		}
		x, y := p.peek(a, at, 1), p.peek(b, at, 1)
		p.require(x.Remaining <= y.Remaining, "after a %v of %d at %s, %d units are left at %s; after the same at %s, %d are left",
			op, cost, offset(t), y.Remaining, offset(at), offset(p.now), x.Remaining)
	}
}

// requireTimeKept requires that the time of the next state is not before that of the state.
func (p *point) requireTimeKept(next []byte) {
	for _, at := range []int64{p.now, p.now - 1, p.past.time - 1} {
		if at < 0 {
			continue
		}
		before, now := p.peek(p.state, at, 1).Skew, p.peek(next, at, 1).Skew
		p.require(now >= before, "at %s Skew is %v, but after an event at %s it is %v", offset(at), before, offset(p.now), now)
	}
}

// adjustsAtStateTime checks only points at which the clock is behind. Skew at instant 0 is the
// state's own time.
func adjustsAtStateTime(p *point) {
	own := p.peek(p.state, 0, 1).Skew.Microseconds()
	if p.now >= own {
		return
	}
	for _, cost := range append(p.costs(), math.MaxInt64) {
		for _, op := range []op{refund, charge} {
			if op == charge && p.subject.Composed && p.past.hasRefund() {
				continue // a part that is full again has no time
			}
			p.requireSameAdjustment(op, cost, own)
		}
	}
}

// requireSameAdjustment compares a refund or a charge now with the same one at the state's own
// time. It does not compare Paid of a stack, which is that of the part with the least units.
func (p *point) requireSameAdjustment(op op, cost, own int64) {
	p.clearProbes()
	early, r := p.call(op, p.state, p.now, cost)
	late, want := p.call(op, p.state, own, cost)
	if !isExact(want) {
		return
	}
	p.require(p.subject.Composed || r.Paid == want.Paid, "Paid of a %v of %d by a clock at %s is %d; at the state's own time, %s, it is %d",
		op, cost, offset(p.now), r.Paid, offset(own), want.Paid)
	p.requireAlike(early, late, own, sameDecision, "after a refund or a charge by a clock that is behind, or at the state's own time")
}

// outOfRange are times outside the range of algo.Instant. Some of them do not fit into an int64 of nanoseconds.
var outOfRange = []struct {
	time    time.Time
	clamped int64
}{
	{instant(-1), 0},
	{time.Date(1492, 10, 12, 2, 0, 0, 0, time.UTC), 0},
	{time.Time{}, 0},
	{instant(algo.MaxInstant + 1), algo.MaxInstant},
	{time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), algo.MaxInstant},
}

func timeIsClamped(p *point) {
	for _, cost := range p.costs() {
		for _, o := range outOfRange {
			p.clearProbes()
			p.requireClamped(p.state, cost, o.clamped, o.time)
			used, _ := p.call(charge, p.state, o.clamped, cost) // because the state may have expired
			p.requireClamped(used, cost, o.clamped, o.time)
		}
		p.clearProbes()
		p.requireClamped(p.state, cost, p.now, instant(p.now).Add(time.Microsecond-1))
	}
}

// requireClamped requires the same result at the time as at the instant.
func (p *point) requireClamped(state []byte, cost, at int64, outside time.Time) {
	for _, op := range allOps {
		want, r := p.call(op, state, at, cost)
		next, r2, err := p.tryCall(op, nil, state, outside, cost)
		if !(err == nil && r == r2 && bytes.Equal(want, next)) {
			p.fail("a %v of %d at %s returns\n    %+v %x, but at %v\n    %+v %x (error %v)",
				op, cost, offset(at), r, want, outside, r2, next, err)
		}
		for _, d := range []time.Duration{r.RetryAfter, r.NextRefill, r.ResetAfter, r.Skew} {
			p.require(d == algo.Never || d%time.Microsecond == 0, "a %v of %d at %s returns %v, which is not a whole number of microseconds", op, cost, offset(at), d)
		}
	}
}
