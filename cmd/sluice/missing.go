package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
)

// newLogSummary returns an empty summary.
func newLogSummary(name, keyField string, needs accesslog.Fields) logSummary {
	return logSummary{name: name, keyField: keyField, needs: needs &^ accesslog.Forwarded, missing: make(map[accesslog.Fields]int64)}
}

// countMissing counts a request without these fields.
func (p *logSummary) countMissing(fields accesslog.Fields) {
	for f := accesslog.IP; f <= fields; f <<= 1 {
		if fields&f != 0 {
			p.missing[f]++
		}
	}
}

// printMissing prints for each field how many requests do not have it, and how they are
// limited.
func (p *logSummary) printMissing(w io.Writer, instead func(accesslog.Fields) string) {
	for f := accesslog.IP; f <= p.needs; f <<= 1 {
		switch n := p.missing[f]; n {
		case 0:
		case p.Entries:
			fmt.Fprintf(w, "no request has %s; %s\n", p.fieldWithArticle(f), instead(f))
		default:
			fmt.Fprintf(w, "%d of %s without %s; %s\n", n, plural(p.Entries, "request"), p.fieldWithArticle(f), instead(f))
		}
	}
}

// fieldWithArticle returns the name of a field with its article.
func (p *logSummary) fieldWithArticle(f accesslog.Fields) string {
	switch f {
	case accesslog.Key:
		return "a member " + strconv.QuoteToGraphic(p.keyField)
	case accesslog.IP:
		return "an ip"
	}
	return "a " + f.String()
}

func (p *logSummary) missingJSON() jsonMissing {
	all := jsonMissing{}
	for f, n := range p.missing {
		all[f.String()] = n
	}
	return all
}
