package accesslog

import "bytes"

// The reasons why a line is not a log line.
const (
	reasonEmpty   = "empty line"
	reasonLong    = "longer than 1 MiB"
	reasonNoStamp = "no [time]"
	reasonStamp   = "invalid time"
	reasonPrefix  = "no address before the time"
	reasonRequest = "no \"request\" and status after the time"
	reasonJSON    = "not valid JSON"
	reasonObject  = "no time in the JSON object"
)

// NoRequest is the [BadLine.Reason] of a valid JSON line with a time that does not describe a
// request, such as an error message of the server.
const NoRequest = "no client, request or status in the JSON object"

// The values of File.Format.
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
