package algotest

import (
	"bytes"
	"time"

	"github.com/sluice-go/sluice/algo"
)

var otherZone = time.FixedZone("UTC+5:45", 5*3600+45*60)

func deterministic(p *point) {
	twin, err := p.subject.New(p.limit)
	p.require(err == nil, "New accepts the limit %v once, but refuses it the second time: %v", p.limit, err)
	zoned := mappedTime{p.policy, func(t time.Time) time.Time { return t.In(otherZone) }}
	for _, cost := range p.costs() {
		for _, op := range allOps {
			p.clearProbes()
			first, r := p.call(op, p.state, p.now, cost)
			again, r2 := p.call(op, p.state, p.now, cost)
			if !(r == r2 && bytes.Equal(first, again)) {
				p.fail("the same %v returns\n    %+v %x, then\n    %+v %x", op, r, first, r2, again)
			}
			for _, other := range []struct {
				what   string
				policy algo.Policy
			}{{"another policy with the same options", twin}, {"another time zone", zoned}} {
				next, r2, err := p.search.apply(other.policy, op, nil, p.state, p.now, cost)
				if !(err == nil && r == r2 && bytes.Equal(first, next)) {
					p.fail("a %v returns\n    %+v %x, but with %s\n    %+v %x", op, r, first, other.what, r2, next)
				}
			}
			p.requireArgumentsKept(op, cost, first)
		}
	}
}

// requireArgumentsKept requires that the policy modifies neither state nor its spare capacity,
// appends to dst, and returns memory that it does not share with state.
func (p *point) requireArgumentsKept(op op, cost int64, want []byte) {
	buffers := &p.search.buffers
	state, spare := p.state, []byte(nil)
	if len(state) > 0 {
		spare = buffers.retain(append(append(buffers.dst(len(state)), state...), make([]byte, 8)...))
		state = spare[:len(state)]
	}
	dst := append(buffers.dst(len(want)), "dst"...)
	next, _, err := p.search.apply(p.policy, op, dst, state, p.now, cost)
	buffers.retain(next)
	p.require(err == nil, "%v returns an error if dst has room: %v", op, err)
	p.require(len(next) >= 3 && string(next[:3]) == "dst" && bytes.Equal(next[3:], want), "%v must append %x to dst=%x, but returns %x", op, want, "dst", next)
	alone, _, _ := p.search.apply(p.policy, op, nil, state, p.now, cost)
	p.require(bytes.Equal(state, p.state), "%v changes its argument from the state %x to %x", op, p.state, state)
	p.require(bytes.Count(spare[len(state):], []byte{0}) == len(spare)-len(state), "%v writes into the memory after the state: %x", op, spare)
	clear(state)
	p.require(bytes.Equal(alone, want) && bytes.Equal(next[3:], want), "the bytes that %v returned change when the state that it was given is overwritten", op)
}
