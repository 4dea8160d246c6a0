package algotest

import (
	"math"
	"testing"
)

// AdjustsAtStateTime is law 18: a refund or a charge by a clock that is behind the
// state counts as one at the state's own time: it pays the same units, and from then
// on the two states answer alike.
func AdjustsAtStateTime(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 18, name: "AdjustsAtStateTime",
		sentence: "a refund or a charge by a clock that is behind the state counts as one at the state's own time: " +
			"it pays the same units, and from then on the two states answer alike",
		judge: adjustsAtStateTime,
		verbs: []op{refund, charge}, skewed: true,
	}.hold(t, s)
}

// adjustsAtStateTime judges only the points at which the clock is behind. Skew at
// instant 0 is the state's own time.
func adjustsAtStateTime(p *point) {
	own := int64(p.peek(p.state, 0, 1).Skew)
	if p.now >= own {
		return
	}
	for _, cost := range append(p.costs(), math.MaxInt64) {
		for _, op := range []op{refund, charge} {
			if op == charge && p.subject.Composed && p.past.refunded() {
				continue // a part that is full again has no time of its own
			}
			p.adjustsAlike(op, cost, own)
		}
	}
}

// adjustsAlike compares a refund or a charge now with the same one at the state's own
// time. Paid of a stack is about the part that has the least by the caller's clock.
func (p *point) adjustsAlike(op op, cost, own int64) {
	p.forget()
	early, r := p.call(op, p.state, p.now, cost)
	late, want := p.call(op, p.state, own, cost)
	if !exact(want) {
		return
	}
	p.require(p.subject.Composed || r.Paid == want.Paid, "a %v of %d by a clock at %s has Paid %d; at the state's own time, %s, it has Paid %d",
		op, cost, offset(p.now), r.Paid, offset(own), want.Paid)
	p.alike(early, late, own, decidesAlike, "after a refund or a charge by a clock that is behind, or at the state's own time")
}
