package algotest

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// TimeMayStepBack is law 9: time may step back: no panic, state time never
// regresses, and never more admitted than if time had stood still at the latest
// reading.
func TimeMayStepBack(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 9, name: "TimeMayStepBack",
		sentence: "time may step back: no panic, state time never regresses, and never more admitted than if time " +
			"had stood still at the latest reading",
		judge:  timeMayStepBack,
		verbs:  []op{refund, charge},
		skewed: true,
	}.hold(t, s)
}

// timeMayStepBack compares an event before the latest one that changed the state
// with the same event at the time of that one. Readings that changed nothing are
// not known to the state.
func timeMayStepBack(p *point) {
	p.ownTime()
	latest := p.past.time
	if p.now >= latest {
		return
	}
	for _, cost := range p.costs() {
		p.forget()
		early := p.peek(p.state, p.now, cost)
		for _, at := range []int64{latest, min(latest+1, algo.MaxInstant)} {
			late := p.peek(p.state, at, cost)
			p.require(late.Allowed || !early.Allowed, "cost %d is allowed at %s, back from %s, and denied at %s", cost, offset(p.now), offset(latest), offset(at))
			p.require(early.Remaining <= late.Remaining, "%d units are there at %s, back from %s, and only %d at %s",
				early.Remaining, offset(p.now), offset(latest), late.Remaining, offset(at))
		}
		p.forget()
		for _, op := range []op{step, refund, charge} {
			next, r := p.call(op, p.state, p.now, cost)
			if op == step && !r.Allowed || !exact(r) {
				continue
			}
			if !p.subject.Composed || !p.past.refunded() { // which may leave one part full, and without a time
				still, _ := p.call(op, p.state, latest, cost)
				p.noMoreGenerous(op, cost, next, still, latest)
			}
			if op != refund { // which may leave a full key: no state, and so no time
				p.timeStands(next)
			}
		}
	}
}

// ownTime requires that Skew is what the state's own time is ahead of now. That
// time is a reading of the clock, or at the least not a whole period behind it.
func (p *point) ownTime() {
	own := int64(p.peek(p.state, 0, 1).Skew)
	ahead := p.peek(p.state, p.now, 1).Skew
	p.require(int64(ahead) == max(0, own-p.now), "in 1970 the state is %v ahead, and at %s %v", time.Duration(own), offset(p.now), ahead)
	for _, op := range []op{step, refund, charge} {
		_, r := p.call(op, p.state, p.now, 1)
		p.require(r.Skew == ahead, "to a peek the state is %v ahead at %s, and to a %v %v", ahead, offset(p.now), op, r.Skew)
	}
	p.require(own <= max(0, p.past.latest), "the state's time is %s, after the latest reading at %s", offset(own), offset(p.past.latest))
	if !p.past.refunded() {
		p.require(own > p.past.time-int64(p.limit.Period), "the state's time is %s, long before the event at %s", offset(own), offset(p.past.time))
	}
}

// noMoreGenerous requires that from t on the state a never has more units than b:
// what an event leaves that came back in time, and what the same leaves at t.
func (p *point) noMoreGenerous(op op, cost int64, a, b []byte, t int64) {
	reset := p.peek(b, t, 1).ResetAfter
	for _, at := range []int64{t, t + 1, after(t, reset/2), after(t, reset) - 1} {
		if at < t || at > algo.MaxInstant {
			continue
		}
		x, y := p.peek(a, at, 1), p.peek(b, at, 1)
		p.require(x.Remaining <= y.Remaining, "after a %v of %d at %s there are %d units at %s; after the same back in time, at %s, there are %d",
			op, cost, offset(t), y.Remaining, offset(at), offset(p.now), x.Remaining)
	}
}

// timeStands requires that the next state is as far ahead of any clock as the one
// before.
func (p *point) timeStands(next []byte) {
	for _, at := range []int64{p.now, p.now - 1, p.past.time - 1} {
		if at < 0 {
			continue
		}
		before, now := p.peek(p.state, at, 1).Skew, p.peek(next, at, 1).Skew
		p.require(now >= before, "at %s the state is %v ahead, and after an event at %s only %v", offset(at), before, offset(p.now), now)
	}
}
