package accesslog

// jsonParser reads lines of JSON. It checks the whole of a line as strictly as
// encoding/json does, so that half a line is no log line.
type jsonParser struct {
	names    map[string]memberName
	keyField string // in lower case; empty: no member
	hostOnly bool   // nothing but the host is asked for

	scan    scanner
	name    []byte // the dotted name of the member being read, in lower case
	scratch []byte // text that is not in the line as it stands
	found   [parts]member
	keyed   member
}

func newJSONParser(o Options) jsonParser {
	return jsonParser{
		names:    namesOfParts(o.TimeField),
		keyField: lower(o.KeyField),
		hostOnly: o.Fields&^Forwarded == Host,
	}
}

func (p *jsonParser) parse(c *clock, line []byte, e *Entry) (reason string) {
	p.reset(line)
	if !p.object() || !p.scan.atEnd() {
		return reasonJSON
	}
	at := &p.found[partTime]
	if at.rank == 0 {
		return reasonObject
	}
	var ok bool
	if e.at, ok = c.json(at.text, at.kind == kindNumber); !ok {
		return reasonStamp
	}
	p.fill(e)
	if !p.isRequest(e) {
		return NoRequest
	}
	return ""
}

func (p *jsonParser) reset(line []byte) {
	p.scan = scanner{text: line}
	p.name, p.scratch = p.name[:0], p.scratch[:0]
	p.found, p.keyed = [parts]member{}, member{}
}

// isRequest reports whether the object tells who asked, for what, or how it was
// answered. A host alone does if nothing else is asked for: servers name those of
// their certificates too.
func (p *jsonParser) isRequest(e *Entry) bool {
	if p.hostOnly && p.found[partHost].rank > 0 {
		return true
	}
	for _, part := range [...]part{partIP, partMethod, partPath, partRequest, partUser} {
		if p.found[part].rank > 0 {
			return true
		}
	}
	return e.Status > 0 || p.keyed.rank > 0
}

func (p *jsonParser) fill(e *Entry) {
	if m := &p.found[partRequest]; m.kind == kindString {
		e.Method, e.Path = request(m.text)
	}
	if m := &p.found[partMethod]; m.rank > 0 {
		e.Method = dash(m.text)
	}
	if m := &p.found[partPath]; m.rank > 0 {
		e.Path = pathOf(dash(m.text))
	}
	others, ip := cutLast(p.found[partIP].text)
	e.Forwarded, e.IP = others, address(ip)
	e.User = dash(p.found[partUser].text)
	e.Host = address(p.found[partHost].text)
	e.Key = dash(p.keyed.text)
	e.Status = statusNumber(p.found[partStatus].text)
}

// statusNumber reads a number of up to three digits; anything else is no status.
func statusNumber(b []byte) int {
	if len(b) > 3 || !allDigits(b) {
		return 0
	}
	n := 0
	for _, c := range b {
		n = n*10 + int(c-'0')
	}
	return n
}
