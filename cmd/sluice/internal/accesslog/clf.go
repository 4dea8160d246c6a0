package accesslog

import (
	"bytes"
	"cmp"
)

func (p *parser) clf(line []byte, e *Entry) (reason string) {
	before, rest, reason := p.cutStamp(line, e)
	switch {
	case reason != "":
		return reason
	case !parseClient(before, e):
		return reasonPrefix
	case !parseRequest(rest, e):
		return reasonRequest
	}
	return ""
}

// maxStamp is how far a stamp may reach: 17/May/2015:10:05:03.123456789 +0000] and
// some bytes more, which make it one of no such time.
const maxStamp = 40

// cutStamp cuts a line at the space and the [ before its stamp, and behind the ]. Users'
// names and forwarded addresses, which clients make up, may have a [ too, but none with
// a time and the mark of a request behind. It looks for the [, of which there are few;
// bytes.Cut would halt at each space.
func (p *parser) cutStamp(line []byte, e *Entry) (before, after []byte, reason string) {
	for i := 0; ; i++ {
		n := bytes.IndexByte(line[i:], '[')
		if n < 0 {
			return nil, nil, cmp.Or(reason, reasonNoStamp)
		}
		if i += n; i == 0 || line[i-1] != ' ' {
			continue
		}
		why, behind := p.stampAt(line[i+1:], e)
		if why == "" {
			return line[:i-1], behind, ""
		}
		reason = cmp.Or(reason, why)
	}
}

func (p *parser) stampAt(b []byte, e *Entry) (reason string, behind []byte) {
	end := bytes.IndexByte(b[:min(len(b), maxStamp)], ']')
	if end < 0 {
		return reasonNoStamp, nil
	}
	var ok bool
	if e.at, ok = p.clock.clf(b[:end]); !ok {
		return reasonStamp, nil
	}
	if behind = b[end+1:]; !bytes.HasPrefix(behind, spacedMark) {
		return reasonRequest, nil
	}
	return "", behind
}

var spacedMark = []byte(` "`)

// parseRequest reads what stands behind the time: "REQUEST" STATUS. A quotation mark in
// the request is written as \", or \x22, but was not always: the request goes on
// to the mark that a status follows.
func parseRequest(b []byte, e *Entry) bool {
	b = b[len(spacedMark):]
	for i := 0; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return false
		}
		if i += n; escaped(b[:i]) {
			continue
		}
		var ok bool
		if e.Status, ok = statusOf(b[i+1:]); ok {
			e.Method, e.Path = request(b[:i])
			return true
		}
	}
}

// escaped reports whether b ends in an odd number of backslashes.
func escaped(b []byte) bool {
	n := len(b)
	for n > 0 && b[n-1] == '\\' {
		n--
	}
	return (len(b)-n)%2 == 1
}

// statusOf reads the three digits that stand alone behind a request.
func statusOf(b []byte) (status int, ok bool) {
	if len(b) < 4 || b[0] != ' ' || len(b) > 4 && b[4] != ' ' || !isDigit(b[1]) || !isDigit(b[2]) || !isDigit(b[3]) {
		return 0, false
	}
	return int(b[1]-'0')*100 + int(b[2]-'0')*10 + int(b[3]-'0'), true
}

// request cuts METHOD TARGET [HTTP/VERSION] into method and path.
func request(b []byte) (method, path []byte) {
	method, target, _ := cut(dash(bytes.Trim(b, " ")))
	target = bytes.TrimLeft(target, " ")
	if i := bytes.LastIndexByte(target, ' ') + 1; bytes.HasPrefix(target[i:], protocol) {
		target = bytes.TrimRight(target[:i], " ")
	}
	return method, pathOf(target)
}

var protocol = []byte("HTTP/")

// pathOf is the target up to its query string.
func pathOf(target []byte) []byte {
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		return target[:i]
	}
	return target
}

// printable reports whether there are no control characters in b: binary data
// that happens to hold a [time] is no log line.
func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

// dash is b, or nothing for the - by which a log says so.
func dash(b []byte) []byte {
	if len(b) == 1 && b[0] == '-' {
		return nil
	}
	return b
}

func cut(b []byte) (before, after []byte, found bool) {
	return bytes.Cut(b, space)
}
