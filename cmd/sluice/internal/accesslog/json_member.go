package accesslog

// member is the value of a member that was found. The zero member was not.
type member struct {
	rank int // of its name
	kind kind
	text []byte // of the line, or of the parser's scratch
}

// object reads an object, and what its members are good for.
func (p *jsonParser) object() bool {
	if !p.scan.open('{') {
		return false
	}
	if p.scan.close('}') {
		return true
	}
	for p.member() {
		if !p.scan.mark(',') {
			return p.scan.close('}')
		}
	}
	return false
}

func (p *jsonParser) member() bool {
	name, escaped, ok := p.scan.quoted()
	if !ok || !p.scan.mark(':') {
		return false
	}
	outer := len(p.name)
	p.enter(name, escaped)
	ok = p.value()
	p.name = p.name[:outer]
	return ok
}

// enter appends a member's name to those of the objects around it, which may be empty.
func (p *jsonParser) enter(name []byte, escaped bool) {
	if p.scan.depth > 1 {
		p.name = append(p.name, '.')
	}
	start := len(p.name)
	if escaped {
		p.name = unescape(p.name, name)
	} else {
		p.name = append(p.name, name...)
	}
	lowerASCII(p.name[start:])
}

// value reads the value of the member p.name. What lies in an array has no name to be
// found by, so arrays are left to the scanner.
func (p *jsonParser) value() bool {
	if p.scan.peek() == '{' {
		return p.object()
	}
	v, ok := p.scan.value()
	if ok && v.kind != kindNull {
		p.note(v)
	}
	return ok
}

// note keeps the value of the member p.name if it is good for anything. Of two
// members of the same rank the last one counts.
func (p *jsonParser) note(v value) {
	if n, ok := p.names[string(p.name)]; ok && v.kind != kindArray {
		if old := &p.found[n.part]; old.rank == 0 || n.rank <= old.rank {
			old.rank, old.kind, old.text = n.rank, v.kind, p.text(v)
		}
	}
	if p.keyField != "" && string(p.name) == p.keyField {
		p.noteKey(v)
	}
}

// noteKey keeps what the key is made of: of an array its strings, if it has nothing
// but strings.
func (p *jsonParser) noteKey(v value) {
	if v.kind != kindArray {
		p.keyed = member{1, v.kind, p.text(v)}
	} else if list, ok := p.list(v.text); ok {
		p.keyed = member{1, v.kind, list}
	}
}

// text is a value as written, a string without its escapes.
func (p *jsonParser) text(v value) []byte {
	if !v.escaped {
		return v.text
	}
	start := len(p.scratch)
	p.scratch = unescape(p.scratch, v.text)
	return p.scratch[start:len(p.scratch):len(p.scratch)]
}
