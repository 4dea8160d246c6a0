package algotest

import (
	"bytes"
	"testing"
	"time"
)

// Deterministic is law 1: same arguments, same answer, arguments not modified.
func Deterministic(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 1, name: "Deterministic",
		sentence: "same arguments, same answer, arguments not modified",
		judge:    deterministic,
		verbs:    []op{refund, charge}, skewed: true,
	}.hold(t, s)
}

// elsewhere is where the same instant has other numbers.
var elsewhere = time.FixedZone("UTC+5:45", 5*3600+45*60)

func deterministic(p *point) {
	twin, err := p.subject.New(p.limit)
	p.require(err == nil, "New takes the limit %v once and refuses it the second time: %v", p.limit, err)
	there := retold{p.policy, func(t time.Time) time.Time { return t.In(elsewhere) }}
	for _, cost := range p.costs() {
		for _, op := range []op{step, peek, refund, charge} {
			p.forget()
			first, r := p.call(op, p.state, p.now, cost)
			again, r2 := p.call(op, p.state, p.now, cost)
			if !(r == r2 && bytes.Equal(first, again)) {
				p.fail("the same %v answers\n    %+v %x, then\n    %+v %x", op, r, first, r2, again)
			}

			next, r2, err := p.hunt.counted(twin, op, nil, p.state, p.now, cost)
			if !(err == nil && r == r2 && bytes.Equal(first, next)) {
				p.fail("two policies of the same options answer one %v\n    %+v %x, and\n    %+v %x", op, r, first, r2, next)
			}

			next, r2, err = p.hunt.counted(there, op, nil, p.state, p.now, cost)
			if !(err == nil && r == r2 && bytes.Equal(first, next)) {
				p.fail("a %v answers\n    %+v %x in UTC, and in another zone\n    %+v %x", op, r, first, r2, next)
			}

			arguments(p, op, cost, first)
		}
	}
}

// arguments requires that state is left alone, its spare capacity included, that
// dst is appended to, and that the answer does not share memory with the question.
func arguments(p *point, op op, cost int64, want []byte) {
	state, spare := p.state, []byte(nil)
	if len(state) > 0 {
		spare = p.hunt.scratch.keep(append(append(p.hunt.scratch.room(len(state)), state...), make([]byte, 8)...))
		state = spare[:len(state)]
	}
	dst := append(p.hunt.scratch.room(len(want)), "dst"...)
	next, _, err := p.hunt.counted(p.policy, op, dst, state, p.now, cost)
	p.hunt.scratch.keep(next)
	p.require(err == nil, "%v refuses with room in dst what it takes without: %v", op, err)
	p.require(len(next) >= 3 && string(next[:3]) == "dst" && bytes.Equal(next[3:], want), "%v is to append %x to dst=%x, and returns %x", op, want, "dst", next)
	alone, _, _ := p.hunt.counted(p.policy, op, nil, state, p.now, cost)
	p.require(bytes.Equal(state, p.state), "%v modifies its argument: the state was %x and is %x", op, p.state, state)
	p.require(bytes.Count(spare[len(state):], []byte{0}) == len(spare)-len(state), "%v writes into the memory after the state: %x", op, spare)
	clear(state)
	p.require(bytes.Equal(alone, want) && bytes.Equal(next[3:], want), "the answer of %v changes when the state that it was given is overwritten", op)
}
