package accesslog

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/sluice-go/sluice/internal/errtext"
)

// jsonParser reads lines of JSON. It accepts valid JSON only, so that half a line is not
// a log line.
type jsonParser struct {
	names    map[string][]memberName
	noTime   string // the reason to skip an object without a time
	hostOnly bool   // Options.Fields has nothing but the host

	name  []byte // the dotted name of the current member, in lower case
	texts []byte // the texts of found
	found [parts]member
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
	return jsonParser{noTime: noTime, names: partsByName(o), hostOnly: o.Fields&^Forwarded == Host}
}

func (p *jsonParser) parse(c *clock, line []byte, e *Entry) (reason string) {
	if !validJSON(line) {
		return InvalidJSON
	}
	p.name, p.texts = p.name[:0], p.texts[:0]
	p.found = [parts]member{}
	p.object(gjson.ParseBytes(line))
	at := &p.found[partTime]
	if at.rank == 0 {
		return p.noTime
	}
	var ok bool
	if e.Time, ok = c.json(at.text, at.kind == gjson.Number); !ok {
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

// object reads the members of an object. p.name has the name of the object and a dot.
func (p *jsonParser) object(o gjson.Result) {
	o.ForEach(func(name, v gjson.Result) bool {
		outer := len(p.name)
		p.name = append(p.name, name.Str...)
		lowerASCII(p.name[outer:])
		switch {
		case v.IsObject():
			p.name = append(p.name, '.')
			p.object(v)
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
	for _, n := range p.names[string(p.name)] {
		if old := p.found[n.part].rank; old > 0 && n.rank > old {
			continue
		}
		start := len(p.texts)
		switch {
		case !v.IsArray():
			p.texts = append(p.texts, text(v)...)
		case n.part != partKey || !p.join(v.Array()):
			continue
		}
		p.found[n.part] = member{n.rank, v.Type, p.texts[start:len(p.texts):len(p.texts)]}
	}
}

// join joins the strings of a list with commas, as proxies join the lines of one header. It returns
// false for an empty list and for other values.
func (p *jsonParser) join(list []gjson.Result) bool {
	for i, v := range list {
		if v.Type != gjson.String {
			return false
		}
		if i > 0 {
			p.texts = append(p.texts, ", "...)
		}
		p.texts = append(p.texts, text(v)...)
	}
	return len(list) > 0
}

// text returns a value as written, or a string without its escapes. Bytes of a string that are not
// UTF-8 stay as they are.
func text(v gjson.Result) string {
	if v.Type == gjson.String {
		return v.Str
	}
	return v.Raw
}

// isRequest reports whether the object has a client, a request or a status. The host alone
// suffices only if no other field is wanted, because error messages of servers name hosts
// too.
func (p *jsonParser) isRequest(e *Entry) bool {
	for _, part := range [...]part{partIP, partMethod, partPath, partRequest, partUser, partKey} {
		if p.found[part].rank > 0 {
			return true
		}
	}
	return e.Status > 0 || p.hostOnly && p.found[partHost].rank > 0
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
	host, _ := splitPort(ip)
	e.Forwarded, e.IP = others, peer(host)
	e.User = dash(p.found[partUser].text)
	e.Host = address(p.found[partHost].text)
	e.Key = dash(p.found[partKey].text)
	if status := p.found[partStatus].text; len(status) <= 3 {
		e.Status = int(max(0, number(status)))
	}
}

// part is a part of an entry.
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
	partKey     // of Options.KeyField
	parts
)

// memberNames has the names of the members for each part, the best first, in
// lower case. They are those of nginx's and Apache's usual JSON formats, Caddy,
// Traefik, Envoy, the Elastic common schema and Google's load balancer.
var memberNames = [parts]string{
	partTime: `time timestamp @timestamp ts time_local time_iso8601 starttime start_time startutc datetime date msec`,
	partIP: `ip client_ip clientip remote_ip remote_addr remoteaddr request.client_ip request.remote_ip clienthost
		client.ip source.ip client.address source.address remote_host remotehost downstream_remote_address
		httprequest.remoteip remoteip client remote`,
	partUser: `user username user_name user_id userid remote_user remoteuser user.name user.id clientusername
		client.user.name`,
	partMethod: `method request_method requestmethod http_method request.method http.request.method
		httprequest.requestmethod verb`,
	partPath: `path uri request_uri requesturi request_path requestpath request.path request.uri url url.path
		url.original target httprequest.requesturl`,
	partHost: `host vhost http_host server_name request.host requesthost request_host authority url.domain`,
	partStatus: `status status_code statuscode response_code responsecode http.response.status_code
		response.status downstreamstatus httprequest.status code`,
	partRequest: `request request_line requestline`,
}

// memberName is the part that a name stands for.
type memberName struct {
	part part
	rank int // from 1; of a part's names in an object, the one with the lowest rank counts
}

// partsByName returns memberNames by the name, with the names of the options. A TimeField replaces
// the usual names of the time, and is not the name of another part except the key.
func partsByName(o Options) map[string][]memberName {
	names := make(map[string][]memberName)
	for i, list := range memberNames {
		for rank, name := range strings.Fields(list) {
			if part(i) != partTime || o.TimeField == "" {
				names[name] = append(names[name], memberName{part(i), rank + 1})
			}
		}
	}
	if o.TimeField != "" {
		names[lower(o.TimeField)] = []memberName{{partTime, 1}}
	}
	if o.KeyField != "" {
		names[lower(o.KeyField)] = append(names[lower(o.KeyField)], memberName{partKey, 1})
	}
	return names
}

// lower returns name with its ASCII letters in lower case.
func lower(name string) string { return string(lowerASCII([]byte(name))) }

func lowerASCII(b []byte) []byte {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return b
}
