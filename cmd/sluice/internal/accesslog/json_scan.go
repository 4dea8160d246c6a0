package accesslog

// maxDepth is how deep arrays and objects may lie in each other.
const maxDepth = 100

// kind is what a JSON value is.
type kind byte

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

// scanner reads a text of JSON from its beginning, as strictly as encoding/json. Its
// methods are false where the text is not valid, and it is of no use from there on.
//
// It is here for speed: encoding/json takes several times as long for a line, as
// BenchmarkScan shows, and allocates. encoding/json/jsontext keeps up, and is to take
// its place when Go builds it without an experiment.
type scanner struct {
	text  []byte
	next  int // index of the first byte that was not read yet
	depth int // of the arrays and objects around it
}

// value is a JSON value as written, a string without its marks. It is four words long,
// which Go keeps in registers; with five a line takes a tenth longer.
type value struct {
	text    []byte
	kind    kind
	escaped bool // there are escapes in the string
}

// value reads a value with the space before it.
func (s *scanner) value() (v value, ok bool) {
	first := s.peek()
	if first == '"' {
		text, escaped, ok := s.quoted()
		return value{text, kindString, escaped}, ok
	}
	start := s.next
	switch first {
	case '{':
		v.kind, ok = kindObject, s.object()
	case '[':
		v.kind, ok = kindArray, s.array()
	case 't':
		v.kind, ok = kindBool, s.word("true")
	case 'f':
		v.kind, ok = kindBool, s.word("false")
	case 'n':
		v.kind, ok = kindNull, s.word("null")
	default:
		v.kind, ok = kindNumber, s.number()
	}
	if ok {
		v.text = s.text[start:s.next]
	}
	return v, ok
}

func (s *scanner) object() bool {
	if !s.open('{') {
		return false
	}
	if s.close('}') {
		return true
	}
	for s.member() {
		if !s.mark(',') {
			return s.close('}')
		}
	}
	return false
}

func (s *scanner) member() bool {
	if _, _, ok := s.quoted(); !ok || !s.mark(':') {
		return false
	}
	_, ok := s.value()
	return ok
}

func (s *scanner) array() bool {
	if !s.open('[') {
		return false
	}
	if s.close(']') {
		return true
	}
	for {
		if _, ok := s.value(); !ok {
			return false
		}
		if !s.mark(',') {
			return s.close(']')
		}
	}
}

func (s *scanner) open(mark byte) bool {
	s.depth++
	return s.depth <= maxDepth && s.mark(mark)
}

func (s *scanner) close(mark byte) bool {
	if !s.mark(mark) {
		return false
	}
	s.depth--
	return true
}

func (s *scanner) number() bool {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return false
	}
	if s.take('.') && !s.digits() {
		return false
	}
	if !s.take('e') && !s.take('E') {
		return true
	}
	if !s.take('+') {
		s.take('-')
	}
	return s.digits()
}

// digits reads one digit or more.
func (s *scanner) digits() bool {
	start := s.next
	for s.next < len(s.text) && isDigit(s.text[s.next]) {
		s.next++
	}
	return s.next > start
}

func (s *scanner) word(word string) bool {
	start := s.next
	s.next += len(word)
	return s.next <= len(s.text) && string(s.text[start:s.next]) == word
}

// mark reads space, and a mark if that is what follows.
func (s *scanner) mark(mark byte) bool {
	if s.peek() != mark {
		return false
	}
	s.next++
	return true
}

// take reads one byte if it is c.
func (s *scanner) take(c byte) bool {
	if s.next < len(s.text) && s.text[s.next] == c {
		s.next++
		return true
	}
	return false
}

// peek reads space and returns the byte that follows, or 0, which no JSON has
// outside of a string, at the end.
func (s *scanner) peek() byte {
	for s.next < len(s.text) {
		switch c := s.text[s.next]; c {
		case ' ', '\t', '\r', '\n':
			s.next++
		default:
			return c
		}
	}
	return 0
}

// atEnd reports whether nothing but space follows.
func (s *scanner) atEnd() bool {
	s.peek()
	return s.next == len(s.text)
}
