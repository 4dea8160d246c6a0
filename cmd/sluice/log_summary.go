package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
)

// logSummary describes a log that was read to its end.
type logSummary struct {
	accesslog.Stats
	name       string
	keyField   string                     // the value of --key-field
	named      accesslog.Fields           // the fields that keys and rules name
	missing    map[accesslog.Fields]int64 // by field, the number of requests without it
	start, end time.Time
	latest     place // the first line with the latest time so far
	behind     int64 // the number of late lines since latest
	ahead      place // the position that made the most lines late
	most       int64 // the number of these lines
}

// place is the position of a line, with its time.
type place struct {
	file string
	line int64
	at   time.Time
}

func (l *logSummary) add(e *accesslog.Entry) {
	if l.start.IsZero() {
		l.start = e.Time
	}
	l.end = e.Time
	l.trackLate(e)
	missing := l.named &^ e.Present()
	for f := accesslog.IP; f <= missing; f <<= 1 {
		if missing&f != 0 {
			l.missing[f]++
		}
	}
}

// trackLate finds the position that made the most lines late.
func (l *logSummary) trackLate(e *accesslog.Entry) {
	switch {
	case e.Late:
		if l.behind++; l.behind > l.most {
			l.ahead, l.most = l.latest, l.behind
		}
	case l.latest.file == "" || !e.Time.Equal(l.latest.at):
		l.latest, l.behind = place{e.File, e.Line, e.Time}, 0
	}
}

const stamp = "2006-01-02 15:04:05"

// span returns the times of the first and the last request.
func (l *logSummary) span() string {
	return fmt.Sprintf("%s to %s UTC", l.start.UTC().Format(stamp), l.end.UTC().Format(stamp))
}

// head describes the log. limited ends the first line. instead describes how requests without
// the field are limited.
func (l *logSummary) head(w io.Writer, limited string, instead func(accesslog.Fields) string) {
	fmt.Fprintf(w, "%s: %s, %s, %s\n", l.name, plural(l.Entries, "request"), l.span(), limited)
	if l.Reordered > 0 {
		fmt.Fprintf(w, "%s out of order, sorted\n", plural(l.Reordered, "line"))
	}
	if l.Late > 0 {
		fmt.Fprintf(w, "%s out of order by more than --reorder, replayed at the latest time read so far\n", plural(l.Late, "line"))
	}
	if l.Skipped > 0 {
		fmt.Fprintf(w, "%d of %s skipped because they are not log lines; the first is %v\n", l.Skipped, plural(l.Lines, "line"), l.FirstSkipped)
	}
	for _, f := range l.Damaged {
		fmt.Fprintf(w, "%s ends early: %v\n", f.Name, f.Err)
	}
	for f := accesslog.IP; f <= l.named; f <<= 1 {
		switch n := l.missing[f]; n {
		case 0:
		case l.Entries:
			fmt.Fprintf(w, "no request has %s; %s\n", l.fieldWithArticle(f), instead(f))
		default:
			fmt.Fprintf(w, "%d of %s without %s; %s\n", n, plural(l.Entries, "request"), l.fieldWithArticle(f), instead(f))
		}
	}
}

// fieldWithArticle returns the name of a field with its article.
func (l *logSummary) fieldWithArticle(f accesslog.Fields) string {
	switch f {
	case accesslog.Key:
		return "a member " + strconv.QuoteToGraphic(l.keyField)
	case accesslog.IP:
		return "an ip"
	}
	return "a " + f.String()
}

// checkLog returns an error if the log is probably the wrong one or unsorted.
func (p *plan) checkLog(l *logSummary) error {
	switch {
	case l.Entries == 0: // if all lines were invalid, the reader has returned an error
		return fmt.Errorf("%s: the log is empty, so there is nothing to replay; name another log", l.name)
	case l.JSON == 0 && (p.timeField != "" || p.keyField != ""):
		return fmt.Errorf("%s has no lines of JSON; leave %s out", l.name, "--"+strings.Join(given(p.flags, "time-field", "key-field"), " and --"))
	case l.missing[accesslog.Key] == l.Entries:
		return fmt.Errorf("%s: no line has the member %q; --key-field wants a member's name, with dots if it is nested, such as request.tenant", l.name, p.keyField)
	case l.most > l.Entries-l.most: // all of them would be replayed at one time
		return fmt.Errorf("%s: %d of %s are late by more than --reorder %s because of the time of %s:%d, %s; remove that line, sort the log by time, or set a longer --reorder",
			l.name, l.most, plural(l.Entries, "line"), algo.FormatDuration(p.reorder), l.ahead.file, l.ahead.line, l.ahead.at.UTC().Format(stamp))
	case l.Late > l.Entries-l.Late:
		return fmt.Errorf("%s: %d of %s are late by more than --reorder %s; sort the log by time, or set a longer --reorder",
			l.name, l.Late, plural(l.Entries, "line"), algo.FormatDuration(p.reorder))
	}
	return nil
}

// withRemedy adds a remedy to the error of a log that could not be read.
func (p *plan) withRemedy(err error) error {
	var bad *accesslog.UnreadableError
	if !errors.As(err, &bad) {
		return err
	}
	first := bad.First
	for _, z := range zips {
		if first.Line == 1 && bytes.HasPrefix(first.Text, []byte(z.magic)) {
			return fmt.Errorf("%s is compressed with %s; decompress it: %s FILE | sluice replay -", first.File, z.name, z.cat)
		}
	}
	switch ext := filepath.Ext(first.File); {
	case ext == ".yaml" || ext == ".yml":
		return fmt.Errorf("%w; if %s is a rule file, use --config %[2]s", err, first.File)
	case first.Reason == accesslog.NoRequest:
		return fmt.Errorf("%w; keep only the lines that are requests, or name the member to limit by with --key-field", err)
	case !bytes.HasPrefix(first.Text, []byte("{")):
		return err
	case p.timeField != "":
		return fmt.Errorf("%w; --time-field wants the name of the member that holds the time, with dots if it is nested, such as request.at", err)
	}
	return fmt.Errorf("%w; name the member of JSON lines that holds the time with --time-field", err)
}

// zips has compression formats, other than gzip, of rotated logs.
var zips = [...]struct{ name, magic, cat string }{
	{"zstd", "\x28\xb5\x2f\xfd", "zstdcat"},
	{"bzip2", "BZh", "bzcat"},
	{"xz", "\xfd7zXZ\x00", "xzcat"},
	{"zip", "PK\x03\x04", "unzip -p"},
}
