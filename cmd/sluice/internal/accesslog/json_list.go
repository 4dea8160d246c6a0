package accesslog

// list is the strings of an array, as servers log the values of a header, even of
// one that came once. A comma joins them, as a proxy may do with the lines of one
// header. An array that is empty, or has anything but strings, is no list.
func (p *jsonParser) list(array []byte) (joined []byte, ok bool) {
	start := len(p.scratch)
	for s := (scanner{text: array, next: len("[")}); ; {
		text, _, ok := s.quoted()
		if !ok {
			return nil, false
		}
		p.scratch = unescape(p.scratch, text)
		if !s.mark(',') {
			return p.scratch[start:len(p.scratch):len(p.scratch)], true
		}
		p.scratch = append(p.scratch, ", "...)
	}
}
