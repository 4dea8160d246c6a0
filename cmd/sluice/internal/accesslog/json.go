package accesslog

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/sluice-go/sluice/cmd/sluice/internal/jsontext"
	"github.com/sluice-go/sluice/internal/errtext"
)

// jsonParser reads lines of JSON. It accepts valid JSON only, so that half a line is not
// a log line.
type jsonParser struct {
	names    map[string]memberName
	keyField string // in lower case; empty: no member
	noTime   string // the reason to skip an object without a time
	hostOnly bool   // Options.Fields has nothing but the host

	name  []byte // the dotted name of the current member, in lower case
	texts []byte // the texts of found and key
	found [parts]member
	key   member
}

// member is the value of a member. The zero member was not found.
type member struct {
	rank int // of its name
	kind gjson.Type
	text []byte // a string without its escapes, any other value as written
}

func newJSONParser(o Options) jsonParser {
	noTime := reasonObject
	if o.TimeField != "" {
		noTime = "no member " + errtext.Quote(o.TimeField) + " in the JSON object"
	}
	return jsonParser{
		noTime:   noTime,
		names:    namesOfParts(o.TimeField),
		keyField: lower(o.KeyField),
		hostOnly: o.Fields&^Forwarded == Host,
	}
}

func (p *jsonParser) parse(c *clock, line []byte, e *Entry) (reason string) {
	if !validJSON(line) {
		return reasonJSON
	}
	p.name, p.texts = p.name[:0], p.texts[:0]
	p.found, p.key = [parts]member{}, member{}
	p.object(gjson.ParseBytes(line), 0)
	at := &p.found[partTime]
	if at.rank == 0 {
		return p.noTime
	}
	var ok bool
	if e.at, ok = c.json(at.text, at.kind == gjson.Number); !ok {
		return reasonStamp
	}
	p.fill(e)
	if !p.isRequest(e) {
		return NoRequest
	}
	return ""
}

// maxBrackets bounds the stack: package gjson recurses for each level of nesting.
const maxBrackets = 10_000

// validJSON uses package gjson, which is three times as fast as encoding/json. Lines that may be
// nested too deeply for it go to encoding/json, which refuses more than 10,000 levels.
func validJSON(line []byte) bool {
	if bytes.Count(line, []byte("{"))+bytes.Count(line, []byte("[")) > maxBrackets {
		return json.Valid(line)
	}
	return gjson.ValidBytes(line)
}

// object reads the members of an object at a level of nesting.
func (p *jsonParser) object(o gjson.Result, level int) {
	o.ForEach(func(name, v gjson.Result) bool {
		outer := len(p.name)
		if level > 0 {
			p.name = append(p.name, '.')
		}
		start := len(p.name)
		p.name = append(p.name, name.Str...)
		lowerASCII(p.name[start:])
		switch {
		case v.IsObject():
			p.object(v, level+1)
		case v.Type != gjson.Null:
			p.store(v)
		}
		p.name = p.name[:outer]
		return true
	})
}

// store stores the value of the member p.name if it has a known name. Of two members of the
// same rank the last one counts.
func (p *jsonParser) store(v gjson.Result) {
	if n, ok := p.names[string(p.name)]; ok && !v.IsArray() {
		if old := p.found[n.part].rank; old == 0 || n.rank <= old {
			p.found[n.part] = p.member(n.rank, v)
		}
	}
	if p.keyField == "" || string(p.name) != p.keyField {
		return
	}
	if !v.IsArray() {
		p.key = p.member(1, v)
	} else if list := v.Array(); isStrings(list) {
		p.key = p.member(1, list...)
	}
}

// isStrings reports whether a list is not empty and has only strings.
func isStrings(list []gjson.Result) bool {
	for _, v := range list {
		if v.Type != gjson.String {
			return false
		}
	}
	return len(list) > 0
}

// member joins several values with commas, as proxies join the lines of one header.
func (p *jsonParser) member(rank int, values ...gjson.Result) member {
	start := len(p.texts)
	for i, v := range values {
		if i > 0 {
			p.texts = append(p.texts, ", "...)
		}
		p.texts = appendValue(p.texts, v)
	}
	return member{rank, values[0].Type, p.texts[start:len(p.texts):len(p.texts)]}
}

// appendValue appends a value as written, or a string without its escapes. Bytes of a string
// that are not UTF-8 stay as they are.
func appendValue(dst []byte, v gjson.Result) []byte {
	if v.Type != gjson.String {
		return append(dst, v.Raw...)
	}
	text := v.Raw[1 : len(v.Raw)-1]
	for {
		i := strings.IndexByte(text, '\\')
		if i < 0 {
			return append(dst, text...)
		}
		r, n := jsontext.Escape(text[i:])
		dst = utf8.AppendRune(append(dst, text[:i]...), r)
		text = text[i+n:]
	}
}

// isRequest reports whether the object has a client, a request or a status. The host alone
// suffices only if no other field is wanted, because error messages of servers name hosts
// too.
func (p *jsonParser) isRequest(e *Entry) bool {
	if p.hostOnly && p.found[partHost].rank > 0 {
		return true
	}
	for _, part := range [...]part{partIP, partMethod, partPath, partRequest, partUser} {
		if p.found[part].rank > 0 {
			return true
		}
	}
	return e.Status > 0 || p.key.rank > 0
}

func (p *jsonParser) fill(e *Entry) {
	if m := &p.found[partRequest]; m.kind == gjson.String {
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
	e.Key = dash(p.key.text)
	e.Status = statusNumber(p.found[partStatus].text)
}

// statusNumber reads a number of up to three digits. It returns 0 for any other text.
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
