package logs

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
)

// Summary describes a log that was read to its end.
type Summary struct {
	accesslog.Stats
	Name       string
	keyField   string                     // the value of --key-field
	readsIP    bool                       // keys or rules read the client's address, at least in place of a missing field
	named      accesslog.Fields           // the fields that keys and rules name
	missing    map[accesslog.Fields]int64 // by field, the number of requests without it
	start, end time.Time
	latest     accesslog.Entry // the first line with the latest time so far; its texts are not valid any more
	behind     int64           // the number of late lines since latest
	ahead      accesslog.Entry // the line that made the most lines late
	most       int64           // the number of these lines
}

func (l *Summary) note(e *accesslog.Entry) {
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
func (l *Summary) trackLate(e *accesslog.Entry) {
	switch {
	case e.Late:
		if l.behind++; l.behind > l.most {
			l.ahead, l.most = l.latest, l.behind
		}
	case l.latest.Line == 0 || !e.Time.Equal(l.latest.Time):
		l.latest, l.behind = *e, 0
	}
}

const Stamp = "2006-01-02 15:04:05"

// HasProblems reports whether requests are lost, in the wrong order, or without a field that a rule
// or a key names.
func (l *Summary) HasProblems() bool {
	return l.Skipped > 0 || l.Late > 0 || l.noAddress() > 0 || len(l.Damaged) > 0 || len(l.missing) > 0
}

// noAddress returns how many requests have a client that is no address; 0 if no key has the client.
func (l *Summary) noAddress() int64 {
	replaces := l.readsIP && l.missing[accesslog.User]+l.missing[accesslog.Key] > 0
	if l.named&accesslog.IP == 0 && !replaces {
		return 0
	}
	return l.NoAddress
}

// Span returns the times of the first and the last request.
func (l *Summary) Span() string {
	return fmt.Sprintf("%s to %s UTC", l.start.UTC().Format(Stamp), l.end.UTC().Format(Stamp))
}

// Head describes the log. limited ends the first line. instead describes how requests without
// the field are limited.
func (l *Summary) Head(limited string, instead func(accesslog.Fields) string) string {
	var w strings.Builder
	fmt.Fprintf(&w, "%s: %s, %s, %s\n", l.Name, readable.Plural(l.Entries, "request"), l.Span(), limited)
	if l.Reordered > 0 {
		fmt.Fprintf(&w, "%s out of order, sorted\n", readable.Plural(l.Reordered, "line"))
	}
	if l.Late > 0 {
		fmt.Fprintf(&w, "%s out of order by more than --reorder, replayed at the latest time read so far\n", readable.Plural(l.Late, "line"))
	}
	if l.Skipped > 0 {
		fmt.Fprintf(&w, "%d of %s skipped because they are not log lines; the first is %v\n", l.Skipped, readable.Plural(l.Lines, "line"), l.FirstSkipped)
	}
	if n := l.noAddress(); n > 0 {
		fmt.Fprintf(&w, "%d of %s with a client that is no address; the first is %v\n", n, readable.Plural(l.Entries, "request"), l.FirstNoAddress)
	}
	for _, f := range l.Damaged {
		fmt.Fprintf(&w, "%s ends early: %s\n", f.Name, f.Problem)
	}
	for f := accesslog.IP; f <= l.named; f <<= 1 {
		switch n := l.missing[f]; n {
		case 0:
		case l.Entries:
			fmt.Fprintf(&w, "no request has %s; %s\n", l.fieldWithArticle(f), instead(f))
		default:
			fmt.Fprintf(&w, "%d of %s without %s; %s\n", n, readable.Plural(l.Entries, "request"), l.fieldWithArticle(f), instead(f))
		}
	}
	return w.String()
}

// fieldWithArticle returns the name of a field with its article.
func (l *Summary) fieldWithArticle(f accesslog.Fields) string {
	switch f {
	case accesslog.Key:
		return "a member " + strconv.QuoteToGraphic(l.keyField)
	case accesslog.IP:
		return "an ip"
	}
	return "a " + f.String()
}

// Problems is JSON.
type Problems struct {
	Damaged []accesslog.DamagedFile `json:"damaged"`
	Missing map[string]int64        `json:"missing"` // by the field's name
}

// ForJSON returns what --json prints about the log.
func (l *Summary) ForJSON() (accesslog.Counts, Problems) {
	p := Problems{Damaged: append([]accesslog.DamagedFile{}, l.Damaged...), Missing: make(map[string]int64)} // nil would be null in JSON
	for f, n := range l.missing {
		p.Missing[f.String()] = n
	}
	counts := l.Counts
	counts.NoAddress = l.noAddress()
	return counts, p
}
