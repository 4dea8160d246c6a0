package accesslog

import "bytes"

// The reasons why a line is no log line.
const (
	reasonEmpty   = "empty line"
	reasonLong    = "longer than 1 MiB"
	reasonNoStamp = "no [time] in it"
	reasonStamp   = "no such time"
	reasonPrefix  = "no address before the time"
	reasonRequest = "no \"request\" and status after the time"
	reasonJSON    = "not valid JSON"
	reasonObject  = "no time in the JSON object"
)

// NoRequest is the [BadLine.Reason] of a line of JSON that is sound and has a time,
// but tells of something else than a request, as the errors of a server do.
const NoRequest = "no client, request or status in the JSON object"

// Formats, as File.Format tells them.
const (
	formatCommon   = "common"
	formatCombined = "combined"
	formatVHost    = "vhost"
	formatJSON     = "JSON"
)

// parser reads lines into entries. The fields of an entry are views of its line,
// or of the parser's scratch, so they hold until the next line.
type parser struct {
	clock clock
	json  jsonParser
}

// parse fills e in, apart from the line's place. The reason why it is no log line
// is empty if it is one.
func (p *parser) parse(line []byte, e *Entry) (reason string) {
	*e = Entry{File: e.File, Line: e.Line}
	switch {
	case len(line) == 0:
		return reasonEmpty
	case line[0] == '{':
		return p.json.parse(&p.clock, line, e)
	}
	return p.clf(line, e)
}

func (p *parser) clf(line []byte, e *Entry) (reason string) {
	prefix := bytes.Index(line, stampStart)
	if prefix < 0 {
		return reasonNoStamp
	}
	rest := line[prefix+len(stampStart):]
	end := bytes.IndexByte(rest[:min(len(rest), 40)], ']')
	if end < 0 {
		return reasonNoStamp
	}
	s, ok := p.clock.clf(rest[:end])
	if !ok {
		return reasonStamp
	}
	e.sec, e.nsec = s.sec, s.nsec
	if !who(line[:prefix], e) {
		return reasonPrefix
	}
	if !what(rest[end+1:], e) {
		return reasonRequest
	}
	return ""
}

var stampStart = []byte(" [")

// what reads what stands behind the time: "REQUEST" STATUS. A quotation mark in
// the request is written as \", or \x22, but was not always: the request goes on
// to the mark that a status follows.
func what(b []byte, e *Entry) bool {
	if len(b) < 2 || b[0] != ' ' || b[1] != '"' {
		return false
	}
	b = b[2:]
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

func allDigits(b []byte) bool {
	for _, c := range b {
		if !isDigit(c) {
			return false
		}
	}
	return len(b) > 0
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

// formatOf names the format of a line that was read.
func formatOf(line []byte, e *Entry) string {
	switch {
	case line[0] == '{':
		return formatJSON
	case len(e.Host) > 0:
		return formatVHost
	case bytes.Contains(line, []byte(`" "`)):
		return formatCombined
	}
	return formatCommon
}
