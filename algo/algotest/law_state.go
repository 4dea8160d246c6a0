package algotest

import (
	"bytes"
	"errors"

	"github.com/sluice-go/sluice/algo"
)

func newKeyIsEmpty(p *point) {
	type named struct {
		what  string
		state []byte
	}
	states := []named{{"an empty slice", []byte{}}}
	if p.subject.Recode != nil {
		state, err := p.subject.Recode(nil)
		p.require(err == nil, "Recode cannot decode empty bytes: %v", err)
		states = append(states, named{"the encoding of State{}", state})
	}
	if p.peek(p.state, p.now, 1).Fresh {
		states = append(states, named{"a state that is Fresh", p.state})
	}
	p.state = nil
	for c := range p.each(step, refund, charge) {
		for _, s := range states {
			next, r := p.call(c.op, s.state, p.now, c.cost)
			if r != c.r {
				p.fail("a %v of nil and of %s return\n    %+v, and\n    %+v", c.op, s.what, c.r, r)
			}
			p.requireAlike(c.next, next, p.now, sameResult, "after the same event on nil and on "+s.what)
		}
	}
}

func stateEncoding(p *point) {
	for range 4 {
		p.requireRefusedOrValid(p.random.Damage(p.state))
	}
	if len(p.state) == 0 || !p.isNew(p.state, 0) {
		return
	}
	if p.subject.Recode != nil {
		again, err := p.subject.Recode(p.state)
		p.require(err == nil, "Recode cannot decode the state %x: %v", p.state, err)
		p.requireAlike(p.state, again, max(p.now, p.past.latest), sameResult, "after decoding and encoding the state")
	}
	for n := 1; n < len(p.state); n++ {
		p.requireError(p.state[:n], 1, algo.ErrState, "a truncated state")
	}
	for _, more := range []string{"\x00", "\x01", "\xff", string(p.state)} {
		p.requireError(append(bytes.Clone(p.state), more...), 1, algo.ErrState, "a state with trailing bytes")
	}
	p.require(len(p.state) >= 2, "the state %x must have a byte for the algorithm and a byte for the format version", p.state)
	p.requireError(append([]byte{^p.state[0]}, p.state[1:]...), 1, algo.ErrState, "another algorithm's state")
	for _, version := range []byte{p.state[1] + 1, 0xff} {
		newer := append([]byte{p.state[0], version}, p.state[2:]...)
		p.requireError(newer, 1, algo.ErrStateVersion, "a newer format")
		p.requireError(append(newer, 0), 1, algo.ErrStateVersion, "a newer and longer format")
		p.requireError(newer[:2], 1, algo.ErrStateVersion, "a newer and shorter format")
	}
	if p.random.Chance(2) { // rarely, because it makes 2,000 calls
		p.requireOnlyOwnHeader()
	}
}

// requireOnlyOwnHeader tries every other first byte, and every other second byte. It allows
// versions from 1 to the current one: they may be older formats.
func (p *point) requireOnlyOwnHeader() {
	tag, version, rest := p.state[0], p.state[1], p.state[2:]
	for b := range 256 {
		if other := byte(b); other != tag {
			p.requireError(append([]byte{other, version}, rest...), 1, algo.ErrState, "another algorithm's state")
		}
	}
	p.requireError(append([]byte{tag, 0}, rest...), 1, algo.ErrState, "format 0")
	for newer := int(version) + 1; newer < 256; newer++ {
		p.requireError(append([]byte{tag, byte(newer)}, rest...), 1, algo.ErrStateVersion, "a newer format")
	}
}

// requireError requires that every operation returns the error and leaves dst as it was.
func (p *point) requireError(state []byte, cost int64, want error, what string) {
	for _, op := range allOps {
		next, _, err := p.tryCall(op, []byte("dst"), state, instant(p.now), cost)
		p.require(errors.Is(err, want), "%s, state %x: %v of %d must return the error %q, but returns %v", what, state, op, cost, want, err)
		p.require(string(next) == "dst", "%s: %v appends to dst, but returns an error", what, op)
	}
}

// requireRefusedOrValid requires that every operation refuses the bytes, or that all accept them as
// a state.
func (p *point) requireRefusedOrValid(state []byte) {
	_, err := p.policy.Peek(state, instant(p.now), 1)
	for _, op := range []op{step, refund, charge} {
		next, _, err2 := p.tryCall(op, []byte("dst"), state, instant(p.now), 1)
		p.require((err == nil) == (err2 == nil), "bytes %x: the error of Peek is %v, but of %v it is %v", state, err, op, err2)
		if err2 != nil {
			p.require(errors.Is(err2, algo.ErrState) || errors.Is(err2, algo.ErrStateVersion), "bytes %x: %v", state, err2)
			p.require(string(next) == "dst", "bytes %x: %v appends to dst, but returns an error", state, op)
			continue
		}
		next, r := p.call(op, state, p.now, 1)
		next, r2 := p.call(step, next, p.now, 1)
		p.require(r.Available+r.Refilled-r.Paid == r.Remaining && r2.Available+r2.Refilled-r2.Paid == r2.Remaining,
			"bytes %x: Available + Refilled - Paid is not Remaining: %+v, then %+v", state, r, r2)
		p.call(step, next, algo.MaxInstant, 1)
		p.call(step, next, 0, 1)
	}
}

func denialKeepsState(p *point) {
	for c := range p.each(step, refund) {
		if c.op == step {
			p.require(c.r.Allowed || bytes.Equal(c.next, p.state), "cost %d is denied, but the state changes from %x to %x", c.cost, p.state, c.next)
			continue
		}
		if r := p.peek(p.state, p.now, 1); r.Remaining < r.Limit || r.ResetAfter > 0 {
			continue // one part of a stack may be full, and another not
		}
		p.require(bytes.Equal(c.next, p.state), "a refund of a full key changes the state from %x to %x", p.state, c.next)
	}
}

func denialStaysTrue(p *point) {
	var denied []int64
	for _, cost := range p.costs() {
		if !p.peek(p.state, p.now, cost).Allowed {
			denied = append(denied, cost)
		}
	}
	if len(denied) > 3 {
		denied = []int64{denied[0], denied[1], denied[len(denied)-2]}
	}
	p.requireDenied(2, p.state, denied)
}

// requireDenied tries steps up to now. Short sequences are enough: if a long one makes a
// denial wrong, so does one of its steps, from a state on the way.
func (p *point) requireDenied(depth int, state []byte, denied []int64) {
	for _, at := range []int64{p.now, p.now - 1, p.past.latest, p.past.latest - 1} {
		if at < 0 || at > p.now {
			continue
		}
		for _, cost := range costs(p.peek(state, at, 1).Limit, p.peek(state, at, 1).Remaining) {
			mark := len(p.probes)
			next, r := p.call(step, state, at, cost)
			if !r.Allowed {
				continue
			}
			for _, c := range denied {
				p.require(!p.peek(next, p.now, c).Allowed, "cost %d is denied at %s, but allowed there after a step of %d at %s", c, offset(p.now), cost, offset(at))
			}
			if depth > 1 && cost == 1 {
				p.requireDenied(depth-1, next, denied)
			}
			p.probes = p.probes[:mark]
		}
	}
}
