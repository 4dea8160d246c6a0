package accesslog

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// member is the value of a member. The zero member was not found.
type member struct {
	rank int // of its name
	kind gjson.Type
	text string // a string without its escapes, any other value as written
}

func (m member) time() (time.Time, bool) { return jsonTime(m.text, m.kind == gjson.Number) }

// parseJSON reads a line of JSON. It accepts valid JSON only, so that half a line is not a log line.
func (p *parser) parseJSON(line []byte, e *Entry) (reason string) {
	if !json.Valid(line) { // more than 10,000 levels are not valid; package gjson recurses for each level
		return InvalidJSON
	}
	p.name, p.texts, p.found = p.name[:0], p.texts[:0], [parts]member{}
	p.object(gjson.ParseBytes(line))
	if !p.has(partTime) {
		return p.noTime
	}
	if e.Time, reason = usableTime(p.found[partTime].time()); reason != "" {
		if seconds, err := strconv.ParseFloat(p.found[partTime].text, 64); err == nil && 0 <= seconds && seconds < 1e8 {
			return reasonDuration
		}
		return reason
	}
	p.fill(e)
	if !p.isRequest(e) {
		return NoRequest
	}
	return ""
}

// object reads the members of an object. p.name has the name of the object and a dot.
func (p *parser) object(o gjson.Result) {
	o.ForEach(func(name, v gjson.Result) bool {
		outer := len(p.name)
		p.name = append(p.name, strings.ToLower(name.Str)...)
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

// store stores the value of the member p.name if it has a known name. If several
// members have the same meaning, the one with the better value counts, then the one with the better rank, then the last one.
func (p *parser) store(v gjson.Result) {
	for _, n := range p.names[string(p.name)] {
		if v.IsArray() && !(n.part == partKey && isListOfStrings(v)) {
			continue
		}
		m := member{n.rank, v.Type, v.Raw}
		if v.Type == gjson.String {
			m.text = v.Str
		}
		if p.has(n.part) {
			before := p.found[n.part]
			old, quality := p.quality(n.part, before), p.quality(n.part, m)
			if quality < old || quality == old && m.rank > before.rank {
				continue
			}
		}
		p.found[n.part] = m
	}
}

// The qualities of a value.
const (
	saysNothing = iota // such as "" and -, a time of 0.005, which is a duration, the status "ok", and the address 0
	isPlausible        // also a number as the time, which may be a long duration, and a name as the address
	isCertain          // a time with a date, or an address
)

// quality compares values of members that mean the same part.
func (p *parser) quality(part part, m member) int {
	switch part {
	case partTime:
		_, reason := usableTime(m.time())
		switch {
		case reason != "":
			return saysNothing
		case strings.Contains(m.text, ":"):
			return isCertain
		}
		return isPlausible
	case partIP:
		_, ip := client([]byte(m.text))
		switch {
		case m.kind != gjson.String || len(ip) == 0:
			return saysNothing
		case isIP(ip):
			return isCertain
		}
		return isPlausible
	case partStatus:
		m.text = string(statusOf([]byte(m.text)))
	}
	if m.text == "" || m.text == "-" {
		return saysNothing
	}
	return isPlausible
}

// client returns the client of a list of addresses, without its port, and the other addresses.
func client(list []byte) (others, ip []byte) {
	list = bytes.TrimRight(list, ", ")
	others, ip = cutComma(list, bytes.LastIndexByte(list, ','))
	return others, peer(withoutPort(ip))
}

// isListOfStrings returns false for an empty list.
func isListOfStrings(v gjson.Result) bool {
	list := v.Array()
	return len(list) > 0 && !slices.ContainsFunc(list, func(v gjson.Result) bool { return v.Type != gjson.String })
}

func (p *parser) has(part part) bool { return p.found[part].rank > 0 }

// text returns the value of a part: a string without its escapes, or another value as written. Strings of a
// list are joined with commas, as proxies join the lines of one header. Bytes that are not UTF-8 stay
// as they are.
func (p *parser) text(part part) []byte {
	start, text := len(p.texts), p.found[part].text
	if p.found[part].kind == gjson.JSON {
		var list []string
		for _, v := range gjson.Parse(text).Array() {
			list = append(list, v.Str)
		}
		text = strings.Join(list, ", ")
	}
	p.texts = append(p.texts, text...)
	return p.texts[start:len(p.texts):len(p.texts)]
}

// isRequest reports whether the object has a client, a request or a status. The host alone does not suffice, because error messages
// of servers name hosts too.
func (p *parser) isRequest(e *Entry) bool {
	parts := []part{partIP, partMethod, partPath, partRequest, partUser, partKey}
	return slices.ContainsFunc(parts, p.has) || len(e.Status) > 0
}

func (p *parser) fill(e *Entry) {
	if p.found[partRequest].kind == gjson.String {
		e.Method, e.Path = request(p.text(partRequest))
	}
	if p.quality(partMethod, p.found[partMethod]) > saysNothing {
		e.Method = p.text(partMethod)
	}
	if p.quality(partPath, p.found[partPath]) > saysNothing {
		e.Path = pathOf(p.text(partPath))
	}
	e.Forwarded, e.IP = client(p.text(partIP))
	e.User, e.Host, e.Key = dash(p.text(partUser)), dash(withoutPort(p.text(partHost))), dash(p.text(partKey))
	e.Status = statusOf(p.text(partStatus))
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
	rank int // from 1, the best; see parser.store
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
		names[strings.ToLower(o.TimeField)] = []memberName{{partTime, 1}}
	}
	if o.KeyField != "" {
		name := strings.ToLower(o.KeyField)
		names[name] = append(names[name], memberName{partKey, 1})
	}
	return names
}
