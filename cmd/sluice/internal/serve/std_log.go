package serve

import (
	stdlog "log"
	"log/slog"
	"regexp"
	"strings"
)

// TakeStandardLog redirects package log, to which libraries write, to this log: each line
// becomes a warning. Package log is one for the whole process; release restores it.
func TakeStandardLog(log *slog.Logger) (release func()) {
	writer, flags, prefix := stdlog.Writer(), stdlog.Flags(), stdlog.Prefix()
	stdlog.SetOutput(errorLines{sampleLog(log, failureSamples), "message from a library", unquoted})
	stdlog.SetFlags(0)
	stdlog.SetPrefix("")
	return func() {
		stdlog.SetOutput(writer)
		stdlog.SetFlags(flags)
		stdlog.SetPrefix(prefix)
	}
}

// errorLog is the ErrorLog for net/http. All lines have one message, so that sampling keeps
// clients that break connections from filling the log. The addresses of connections are
// removed, because they are keys.
func errorLog(log *slog.Logger, message string) *stdlog.Logger {
	return stdlog.New(errorLines{log, message, func(line string) string { return withoutAddresses(unquoted(line)) }}, "", 0)
}

type errorLines struct {
	log     *slog.Logger
	message string
	redact  func(line string) string
}

// Write implements io.Writer.
func (l errorLines) Write(line []byte) (int, error) {
	l.log.Warn(l.message, "error", l.redact(strings.TrimSpace(string(line))))
	return len(line), nil
}

var (
	quotation = regexp.MustCompile(`(?s)"(\\.|[^"\\])*("|\\?$)`)
	badHeader = regexp.MustCompile(`(?s)(malformed MIME header[^:]*: ).*`)
	address   = regexp.MustCompile(`(\d+(\.\d+){3}|\[[^\]\s]*:[^\]\s]*\]):\d+`) // as net.Addr has that of a connection
)

// unquoted removes quotations from text. net/http quotes what it cannot read of a response,
// which may be a secret; older releases of Go also show the line of a header.
func unquoted(text string) string {
	text = badHeader.ReplaceAllString(text, "${1}...")
	return quotation.ReplaceAllLiteralString(text, "...")
}

// withoutAddresses removes the addresses of connections from text.
func withoutAddresses(text string) string { return address.ReplaceAllLiteralString(text, "...") }
