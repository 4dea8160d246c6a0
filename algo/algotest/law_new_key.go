package algotest

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
	for _, s := range states {
		for _, cost := range p.costs() {
			for _, op := range []op{step, refund, charge} {
				p.clearProbes()
				a, x := p.call(op, nil, p.now, cost)
				b, y := p.call(op, s.state, p.now, cost)
				if x != y {
					p.fail("a %v of nil and of %s return\n    %+v, and\n    %+v", op, s.what, x, y)
				}
				p.requireAlike(a, b, p.now, sameResult, "after the same event on nil and on "+s.what)
			}
		}
	}
}
