package accesslog

import (
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects may lie in each other.
const maxDepth = 100

// part is what a member of the object is good for.
type part int

const (
	partTime part = iota
	partIP
	partUser
	partMethod
	partPath
	partHost
	partStatus
	partRequest // METHOD TARGET PROTOCOL in one
	parts
)

// memberNames are the names by which each part is looked for, the best first, in
// lower case. They are those of nginx's and Apache's usual JSON formats, Caddy,
// Traefik, Envoy, the Elastic common schema and Google's load balancer.
var memberNames = [parts][]string{
	partTime: {"time", "timestamp", "@timestamp", "ts", "time_local", "time_iso8601", "starttime", "start_time",
		"startutc", "datetime", "date", "msec"},
	partIP: {"ip", "client_ip", "clientip", "remote_ip", "remote_addr", "remoteaddr", "request.client_ip", "request.remote_ip",
		"clienthost", "client.ip", "source.ip", "client.address", "source.address", "remote_host", "remotehost",
		"downstream_remote_address", "httprequest.remoteip", "remoteip", "client", "remote"},
	partUser: {"user", "username", "user_name", "user_id", "userid", "remote_user", "remoteuser", "user.name", "user.id",
		"clientusername", "client.user.name"},
	partMethod: {"method", "request_method", "requestmethod", "http_method", "request.method", "http.request.method",
		"httprequest.requestmethod", "verb"},
	partPath: {"path", "uri", "request_uri", "requesturi", "request_path", "requestpath", "request.path", "request.uri", "url",
		"url.path", "url.original", "target", "httprequest.requesturl"},
	partHost: {"host", "vhost", "http_host", "server_name", "request.host", "requesthost", "request_host", "authority", "url.domain"},
	partStatus: {"status", "status_code", "statuscode", "response_code", "responsecode", "http.response.status_code", "response.status",
		"downstreamstatus", "httprequest.status", "code"},
	partRequest: {"request", "request_line", "requestline"},
}

type memberName struct {
	part part
	rank int // the least one present wins
}

// jsonParser reads lines of JSON. It checks the whole of a line as strictly as
// encoding/json does, so that half a line is no log line.
type jsonParser struct {
	names  map[string]memberName
	key    string // in lower case; empty: no member
	byHost bool   // nothing but the host is asked for

	line    []byte
	name    []byte // the dotted name of the member being read, in lower case
	scratch []byte // text without its escapes
	found   [parts]member
	keyed   member
}

// member is the value of a member that was found.
type member struct {
	rank    int // from 1; 0: not found
	text    []byte
	kind    kind
	escaped bool
}

type kind byte

const (
	kindOther kind = iota // null, an array, an object
	kindString
	kindNumber
	kindBool
	kindList // strings of an array, joined
)

func newJSONParser(o Options) jsonParser {
	p := jsonParser{names: make(map[string]memberName), key: lower(o.KeyField), byHost: o.Fields&^Forwarded == Host}
	for i, list := range memberNames {
		for rank, name := range list {
			if part(i) != partTime || o.TimeField == "" {
				p.names[name] = memberName{part(i), rank + 1}
			}
		}
	}
	if o.TimeField != "" {
		p.names[lower(o.TimeField)] = memberName{partTime, 1}
	}
	return p
}

func (p *jsonParser) parse(c *clock, line []byte, e *Entry) (reason string) {
	p.line, p.name, p.scratch = line, p.name[:0], p.scratch[:0]
	p.found, p.keyed = [parts]member{}, member{}
	i, ok := p.object(0, 1, true)
	if !ok || p.space(i) != len(line) {
		return reasonJSON
	}
	at := &p.found[partTime]
	if at.rank == 0 {
		return reasonObject
	}
	s, ok := c.text(p.text(at), at.kind == kindNumber)
	if !ok {
		return reasonStamp
	}
	e.sec, e.nsec = s.sec, s.nsec
	p.fill(e)
	if !p.isRequest(e) {
		return NoRequest
	}
	return ""
}

// isRequest reports whether the object tells who asked, for what, or how it was
// answered. A host alone does if nothing else is asked for: servers name those of
// their certificates too.
func (p *jsonParser) isRequest(e *Entry) bool {
	if p.byHost && p.found[partHost].rank > 0 {
		return true
	}
	for _, part := range [...]part{partIP, partMethod, partPath, partRequest, partUser} {
		if p.found[part].rank > 0 {
			return true
		}
	}
	return e.Status > 0 || p.keyed.kind != kindOther
}

func (p *jsonParser) fill(e *Entry) {
	if m := &p.found[partRequest]; m.kind == kindString {
		e.Method, e.Path = request(p.text(m))
	}
	if m := &p.found[partMethod]; m.rank > 0 {
		e.Method = dash(p.text(m))
	}
	if m := &p.found[partPath]; m.rank > 0 {
		e.Path = pathOf(dash(p.text(m)))
	}
	others, ip := cutLast(p.text(&p.found[partIP]))
	e.Forwarded, e.IP = others, address(ip)
	e.User = dash(p.text(&p.found[partUser]))
	e.Host = address(p.text(&p.found[partHost]))
	e.Key = dash(p.text(&p.keyed))
	e.Status = statusNumber(p.text(&p.found[partStatus]))
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

// note keeps the value of the member whose name has just been read, if it is good
// for anything. Of two members of the same rank the last one counts.
func (p *jsonParser) note(m member) {
	if m.kind == kindOther {
		return
	}
	if n, ok := p.names[string(p.name)]; ok {
		if old := &p.found[n.part]; old.rank == 0 || n.rank <= old.rank {
			m.rank = n.rank
			*old = m
		}
	}
	if p.key != "" && string(p.name) == p.key {
		p.keyed = m
	}
}

// noteList keeps the array at line[i:] if it has strings alone and is what the key
// is made of. Servers log headers so, even those of one value. A comma joins the
// values, as a proxy may do with the lines of one header.
func (p *jsonParser) noteList(i int) {
	if p.key == "" || string(p.name) != p.key {
		return
	}
	start := len(p.scratch)
	for p.at(i) != ']' {
		if p.at(i) == ',' {
			p.scratch = append(p.scratch, ", "...)
		}
		text := p.space(i + 1)
		end, _, ok := p.quoted(text)
		if !ok {
			p.scratch = p.scratch[:start]
			return
		}
		p.scratch = unescape(p.scratch, p.line[text+1:end-1])
		i = p.space(end)
	}
	p.keyed = member{text: p.scratch[start:len(p.scratch):len(p.scratch)], kind: kindList}
}

// The methods below read one piece of JSON at line[i:] and return what lies
// behind it. Members are named as long as no array lies around them.

func (p *jsonParser) object(i, depth int, named bool) (int, bool) {
	if depth > maxDepth {
		return i, false
	}
	i = p.space(i + 1)
	if p.at(i) == '}' {
		return i + 1, true
	}
	prefix := len(p.name)
	for {
		end, escaped, ok := p.quoted(i)
		if !ok {
			return i, false
		}
		if named {
			p.enter(p.line[i+1:end-1], escaped, depth > 1)
		}
		if i = p.space(end); p.at(i) != ':' {
			return i, false
		}
		if i, ok = p.value(p.space(i+1), depth, named); !ok {
			return i, false
		}
		p.name = p.name[:prefix]
		switch i = p.space(i); p.at(i) {
		case ',':
			i = p.space(i + 1)
		case '}':
			return i + 1, true
		default:
			return i, false
		}
	}
}

// enter appends a member's name to those of the objects around it, which may be empty.
func (p *jsonParser) enter(name []byte, escaped, inner bool) {
	if inner {
		p.name = append(p.name, '.')
	}
	start := len(p.name)
	if escaped {
		p.name = unescape(p.name, name)
	} else {
		p.name = append(p.name, name...)
	}
	for i, c := range p.name[start:] {
		if 'A' <= c && c <= 'Z' {
			p.name[start+i] = c | 0x20
		}
	}
}

func (p *jsonParser) array(i, depth int) (int, bool) {
	if depth > maxDepth {
		return i, false
	}
	i = p.space(i + 1)
	if p.at(i) == ']' {
		return i + 1, true
	}
	for {
		var ok bool
		if i, ok = p.value(i, depth, false); !ok {
			return i, false
		}
		switch i = p.space(i); p.at(i) {
		case ',':
			i = p.space(i + 1)
		case ']':
			return i + 1, true
		default:
			return i, false
		}
	}
}

func (p *jsonParser) value(i, depth int, named bool) (end int, ok bool) {
	m := member{}
	switch c := p.at(i); {
	case c == '{':
		return p.object(i, depth+1, named)
	case c == '[':
		end, ok = p.array(i, depth+1)
		if ok && named {
			p.noteList(i)
		}
		return end, ok
	case c == '"':
		end, m.escaped, ok = p.quoted(i)
		m.kind = kindString
	case c == '-' || isDigit(c):
		end, ok = p.number(i)
		m.kind = kindNumber
	case c == 't':
		end, ok = p.word(i, "true")
		m.kind = kindBool
	case c == 'f':
		end, ok = p.word(i, "false")
		m.kind = kindBool
	default:
		end, ok = p.word(i, "null")
	}
	if ok && named {
		m.text = p.line[i:end]
		p.note(m)
	}
	return end, ok
}

func (p *jsonParser) word(i int, word string) (int, bool) {
	end := i + len(word)
	return end, end <= len(p.line) && string(p.line[i:end]) == word
}

func (p *jsonParser) number(i int) (int, bool) {
	if p.at(i) == '-' {
		i++
	}
	if start := i; p.at(start) == '0' {
		i++
	} else if i = p.digits(i); i == start {
		return i, false
	}
	if p.at(i) == '.' {
		start := i + 1
		if i = p.digits(start); i == start {
			return i, false
		}
	}
	if p.at(i)|0x20 != 'e' {
		return i, true
	}
	if i++; p.at(i) == '+' || p.at(i) == '-' {
		i++
	}
	start := i
	i = p.digits(i)
	return i, i > start
}

func (p *jsonParser) digits(i int) int {
	for isDigit(p.at(i)) {
		i++
	}
	return i
}

// quoted reads a string; end lies behind its closing mark.
func (p *jsonParser) quoted(i int) (end int, escaped, ok bool) {
	if p.at(i) != '"' {
		return i, false, false
	}
	for i++; i < len(p.line); i++ {
		switch c := p.line[i]; {
		case c == '"':
			return i + 1, escaped, true
		case c < ' ':
			return i, escaped, false
		case c == '\\':
			n := escapeLen(p.line[i:])
			if n == 0 {
				return i, true, false
			}
			escaped = true
			i += n - 1
		}
	}
	return i, escaped, false
}

// escapeLen is the length of the escape that b begins with; 0 if it is none.
func escapeLen(b []byte) int {
	switch {
	case len(b) < 2:
		return 0
	case b[1] == 'u':
		if _, ok := hex4(b); ok {
			return 6
		}
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	}
	return 0
}

func (p *jsonParser) space(i int) int {
	for i < len(p.line) {
		switch p.line[i] {
		case ' ', '\t', '\r', '\n':
			i++
		default:
			return i
		}
	}
	return i
}

// at is the byte at i, or 0, which no JSON has outside of a string, at the end.
func (p *jsonParser) at(i int) byte {
	if i < len(p.line) {
		return p.line[i]
	}
	return 0
}

// text is a member's value: a string without its marks and escapes, or the value
// as written. It is a view of the line or of p.scratch.
func (p *jsonParser) text(m *member) []byte {
	if m.kind != kindString {
		return m.text
	}
	text := m.text[1 : len(m.text)-1]
	if !m.escaped {
		return text
	}
	start := len(p.scratch)
	p.scratch = unescape(p.scratch, text)
	return p.scratch[start:len(p.scratch):len(p.scratch)]
}

// unescape appends text without its escapes, which are known to be sound. Half a
// surrogate pair becomes U+FFFD.
func unescape(dst, text []byte) []byte {
	for len(text) > 0 {
		if text[0] != '\\' {
			dst, text = append(dst, text[0]), text[1:]
			continue
		}
		c := text[1]
		if c != 'u' {
			dst, text = append(dst, plain(c)), text[2:]
			continue
		}
		r, _ := hex4(text)
		text = text[6:]
		if utf16.IsSurrogate(r) {
			low, _ := hex4(text)
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				text = text[6:]
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// plain is the character that stands for \c.
func plain(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// hex4 reads \uXXXX at the beginning of b.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		r <<= 4
		switch {
		case isDigit(c):
			r |= rune(c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r |= rune(c|0x20-'a') + 10
		default:
			return 0, false
		}
	}
	return r, true
}

func lower(name string) string {
	p := jsonParser{}
	p.enter([]byte(name), false, false)
	return string(p.name)
}
