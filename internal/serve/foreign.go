package serve

import (
	stdlog "log"
	"log/slog"
	"regexp"
	"strings"
)

// TakeStandardLog makes what libraries write to package log warnings of this log,
// in its format. release gives that log, which is one for the whole process, back.
func TakeStandardLog(log *slog.Logger) (release func()) {
	writer, flags, prefix := stdlog.Writer(), stdlog.Flags(), stdlog.Prefix()
	stdlog.SetOutput(errorLines{sparsely(log), "a library complains", unquoted})
	stdlog.SetFlags(0)
	stdlog.SetPrefix("")
	return func() {
		stdlog.SetOutput(writer)
		stdlog.SetFlags(flags)
		stdlog.SetPrefix(prefix)
	}
}

// errorLog is for net/http, whose texts name connections: under one message, so
// that nobody can fill the log by breaking connections, and without their addresses,
// which are keys.
func errorLog(log *slog.Logger, message string) *stdlog.Logger {
	return stdlog.New(errorLines{log, message, func(line string) string { return withoutAddresses(unquoted(line)) }}, "", 0)
}

type errorLines struct {
	log     *slog.Logger
	message string
	told    func(line string) string // what of a line is
}

// Write implements io.Writer.
func (l errorLines) Write(line []byte) (int, error) {
	l.log.Warn(l.message, "error", l.told(strings.TrimSpace(string(line))))
	return len(line), nil
}

var (
	quotation = regexp.MustCompile(`(?s)"(\\.|[^"\\])*("|\\?$)`)
	badHeader = regexp.MustCompile(`(?s)(malformed MIME header[^:]*: ).*`)
	address   = regexp.MustCompile(`(\d+(\.\d+){3}|\[[^\]\s]*:[^\]\s]*\]):\d+`) // as net.Addr has that of a connection
)

// unquoted is text without what is quoted in it. net/http quotes what it cannot
// read of a response, and that may be anything, a secret too; older releases of Go have
// the line of a header as it is.
func unquoted(text string) string {
	text = badHeader.ReplaceAllString(text, "${1}...")
	return quotation.ReplaceAllLiteralString(text, "...")
}

// withoutAddresses is text without the ends of connections.
func withoutAddresses(text string) string { return address.ReplaceAllLiteralString(text, "...") }
