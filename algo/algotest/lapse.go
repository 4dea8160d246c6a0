package algotest

import (
	"testing"

	"github.com/sluice-go/sluice/algo"
)

// LapseIsExact is law 7: at ResetAfter the state decides, for ever after, like one
// never seen, and 1ns earlier it does not.
func LapseIsExact(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 7, name: "LapseIsExact",
		sentence: "at ResetAfter the state decides, for ever after, like one never seen, and 1ns earlier it does not",
		judge:    lapseIsExact,
		verbs:    []op{refund, charge}, skewed: true, switches: true,
	}.hold(t, s)
}

func lapseIsExact(p *point) {
	for _, cost := range p.costs() {
		for _, op := range []op{step, peek, refund, charge} {
			p.forget()
			next, r := p.call(op, p.state, p.now, cost)
			if !exact(r) || len(next) == 0 {
				continue
			}
			p.require(r.ResetAfter >= 0, "ResetAfter is %v", r.ResetAfter)
			lapse := after(p.now, r.ResetAfter)
			if r.ResetAfter == 0 {
				lapse = max(lapse, p.past.latest)
			}
			if lapse > algo.MaxInstant || !p.hunt.once(next, lapse) {
				continue
			}
			p.forgotten(next, lapse)
			if r.ResetAfter > 0 {
				p.remembered(next, lapse-1)
			}
		}
	}
}

// forgotten requires that from t on the state decides like a key never seen.
func (p *point) forgotten(state []byte, t int64) {
	for _, at := range []int64{t, t + 1, t + (algo.MaxInstant-t)/2} {
		if at > algo.MaxInstant {
			continue
		}
		for _, cost := range []int64{1, p.peek(nil, at, 1).Limit} {
			a, x := p.step(nil, at, cost)
			b, y := p.step(state, at, cost)
			if x != y {
				p.fail("the state is to lapse at %s; at %s it answers cost %d\n    %+v, and a key never seen\n    %+v",
					offset(t), offset(at), cost, y, x)
			}
			p.alike(a, b, at, identical, "after the same step on no state and on one that has lapsed")
		}
	}
}

// remembered requires that at t the state decides unlike a key never seen. One
// part of a composed policy can hide what another remembers.
func (p *point) remembered(state []byte, t int64) {
	all := p.peek(state, t, 1).Limit
	x, y := p.peek(state, t, all), p.peek(nil, t, all)
	if p.subject.Composed {
		p.require(x != y, "the state lapses at %s, and at %s already nothing tells it from a key never seen", offset(t+1), offset(t))
		return
	}
	p.require(!decidesAlike(x, y), "the state lapses at %s, and decides at %s already like a key never seen", offset(t+1), offset(t))
}
