package algotest

import "testing"

// FreshIsZero is law 2: fresh is zero: nil bytes, State{} and a lapsed state
// decide alike.
func FreshIsZero(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 2, name: "FreshIsZero",
		sentence: "fresh is zero: nil bytes, State{} and a lapsed state decide alike",
		judge:    freshIsZero,
		verbs:    []op{refund, charge},
	}.hold(t, s)
}

func freshIsZero(p *point) {
	type zero struct {
		what  string
		state []byte
	}
	zeros := []zero{{"no bytes in an empty slice", []byte{}}}
	if p.subject.Recode != nil {
		state, err := p.subject.Recode(nil)
		p.require(err == nil, "no bytes cannot be decoded: %v", err)
		zeros = append(zeros, zero{"the encoding of State{}", state})
	}
	if p.peek(p.state, p.now, 1).Fresh {
		zeros = append(zeros, zero{"a state that is Fresh", p.state})
	}
	for _, z := range zeros {
		for _, cost := range p.costs() {
			for _, op := range []op{step, refund, charge} {
				p.forget()
				a, x := p.call(op, nil, p.now, cost)
				b, y := p.call(op, z.state, p.now, cost)
				if x != y {
					p.fail("nil and %s answer one %v\n    %+v, and\n    %+v", z.what, op, x, y)
				}
				p.alike(a, b, p.now, identical, "after the same event on nil and on "+z.what)
			}
		}
	}
}
