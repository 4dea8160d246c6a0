package accesslog

import (
	"bytes"
	"cmp"

	"github.com/sluice-go/sluice/internal/errtext"
)

// The reasons why a line is not a log line, as far as they have more than one place.
const (
	reasonStamp    = "invalid time"
	reasonDuration = "a number below 100000000 is a duration, not a time"
	reasonRange    = "time before 1970 or after September 2112"
	reasonRequest  = "no \"request\" and status after the time"
)

// NoStamp is the [BadLine.Reason] of a line that is no JSON and has no [time], such as a line of another format.
const NoStamp = "no [time]"

// InvalidJSON is the [BadLine.Reason] of a line that begins with { and is not a JSON object.
const InvalidJSON = "not valid JSON"

// NoRequest is the [BadLine.Reason] of a valid JSON line with a time that does not describe a
// request, such as an error message of the server.
const NoRequest = "no client, request or status in the JSON object"

// parser reads lines into entries. The fields of an entry are views of its line,
// or of the parser's scratch, so they hold until the next line.
type parser struct {
	// For JSON.
	names  map[string][]memberName
	noTime string // the reason to skip an object without a time
	name   []byte // the dotted name of the current member, in lower case
	texts  []byte // the texts of found
	found  [parts]member
}

func newParser(o Options) parser {
	p := parser{names: partsByName(o), noTime: "no time in the JSON object"}
	if o.TimeField != "" {
		p.noTime = "no member " + errtext.Quote(o.TimeField) + " in the JSON object"
	}
	return p
}

// parse sets e, apart from the line's place. It returns the reason if the line is not a log line.
func (p *parser) parse(line []byte, e *Entry) (reason string) {
	*e = Entry{File: e.File, Line: e.Line}
	switch {
	case len(line) == 0:
		return "empty line"
	case line[0] == '{':
		reason = p.parseJSON(line, e)
	default:
		reason = parseText(line, e)
	}
	if len(e.Host) == 0 {
		e.Host = hostOf(e.Path)
	}
	return reason
}

// parseText reads a line that is no JSON.
func parseText(line []byte, e *Entry) (reason string) {
	before, rest, reason := cutStamp(line, e)
	switch {
	case reason != "":
		return reason
	case !parseRequest(rest, e):
		return reasonRequest
	}
	return parseClient(before, e)
}

// maxStamp is how far a time may reach: 17/May/2015:10:05:03.123456789 +0000] and
// some bytes more, which make it invalid.
const maxStamp = 40

// cutStamp cuts a line at the space and the [ before its time, and after the ]. User names and
// forwarded addresses, which clients choose, may have a [ too, but none with a time and the quotation
// mark of a request behind it.
func cutStamp(line []byte, e *Entry) (before, after []byte, reason string) {
	for i := 0; ; i++ {
		n := bytes.IndexByte(line[i:], '[') // a [ is rarer than a space
		if n < 0 {
			return nil, nil, cmp.Or(reason, NoStamp)
		}
		if i += n; i == 0 || line[i-1] != ' ' {
			continue
		}
		after, why := parseStamp(line[i+1:], e)
		if why == "" {
			return line[:i-1], after, ""
		}
		reason = cmp.Or(reason, why)
	}
}

func parseStamp(b []byte, e *Entry) (after []byte, reason string) {
	end := bytes.IndexByte(b[:min(len(b), maxStamp)], ']')
	if end < 0 {
		return nil, NoStamp
	}
	if e.Time, reason = usableTime(clfTime(string(b[:end]))); reason != "" {
		return nil, reason
	}
	if after = b[end+1:]; len(after) < 2 || after[0] != ' ' || after[1] != '"' {
		return nil, reasonRequest
	}
	return after[2:], ""
}

// parseRequest reads REQUEST" STATUS. The status is - if the client left before it had a response. A quotation mark in the
// request is usually written as \" or \x22. Because some servers write it as it is, the request ends at the mark that a status
// follows.
func parseRequest(b []byte, e *Entry) bool {
	for i := 0; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return false
		}
		if i += n; i > 0 && b[i-1] == '\\' && escaped(b[:i]) {
			continue
		}
		after, spaced := bytes.CutPrefix(b[i+1:], space)
		if status, _, _ := bytes.Cut(after, space); spaced && (string(status) == "-" || len(status) == 3 && allDigits(status)) {
			e.Status = statusOf(status)
			e.Method, e.Path = request(b[:i])
			return true
		}
	}
}

// statusOf returns a status of at most three digits, or nothing for zeros and other texts.
func statusOf(b []byte) []byte {
	if len(b) > 3 || number(b) <= 0 {
		return nil
	}
	return bytes.TrimLeft(b, "0")
}

// escaped reports whether b ends in an odd number of backslashes.
func escaped(b []byte) bool { return (len(b)-len(bytes.TrimRight(b, `\`)))%2 == 1 }

// request cuts METHOD TARGET [HTTP/VERSION] into method and path.
func request(b []byte) (method, path []byte) {
	method, target, _ := bytes.Cut(dash(bytes.Trim(b, " ")), space)
	target = bytes.TrimLeft(target, " ")
	if i := bytes.LastIndexByte(target, ' ') + 1; bytes.HasPrefix(target[i:], []byte("HTTP/")) {
		target = bytes.TrimRight(target[:i], " ")
	}
	return method, pathOf(target)
}

// pathOf returns the target without its query string.
func pathOf(target []byte) []byte {
	path, _, _ := bytes.Cut(target, []byte("?"))
	return path
}

// hostOf returns the host of a target that is a whole URL, as proxies get it and Google's load balancer logs it.
func hostOf(target []byte) []byte {
	_, rest, found := bytes.Cut(target, []byte("://"))
	if !found || target[0] == '/' {
		return nil
	}
	host, _, _ := bytes.Cut(rest, []byte("/"))
	return withoutPort(host)
}

// dash returns b, or nothing for the - that logs write for a missing value.
func dash(b []byte) []byte {
	if len(b) == 1 && b[0] == '-' {
		return nil
	}
	return b
}
