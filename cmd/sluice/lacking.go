package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/internal/accesslog"
)

// newPassage begins to read the log of that name.
func newPassage(name, keyField string, needs accesslog.Fields) passage {
	return passage{name: name, keyField: keyField, needs: needs &^ accesslog.Forwarded, lacking: make(map[accesslog.Fields]int64)}
}

// lack counts a request that does not have these fields.
func (p *passage) lack(fields accesslog.Fields) {
	for f := accesslog.IP; f <= fields; f <<= 1 {
		if fields&f != 0 {
			p.lacking[f]++
		}
	}
}

// printLacking tells what requests do not have, and what is done in its place:
// they all share a key, or a part of it.
func (p *passage) printLacking(w io.Writer, instead string) {
	var nobody []string
	for f := accesslog.IP; f <= p.needs; f <<= 1 {
		if n := p.lacking[f]; n > 0 && n == p.Entries {
			nobody = append(nobody, p.aField(f))
		}
	}
	if len(nobody) > 0 {
		fmt.Fprintf(w, "no request has %s; %s\n", strings.Join(nobody, " or "), instead)
	}
	for f := accesslog.IP; f <= p.needs; f <<= 1 {
		if n := p.lacking[f]; n > 0 && n < p.Entries {
			fmt.Fprintf(w, "%d of %s without %s; %s\n", n, many(p.Entries, "request"), p.aField(f), instead)
		}
	}
}

// aField is what a field is called, with its article.
func (p *passage) aField(f accesslog.Fields) string {
	switch f {
	case accesslog.Key:
		return "a member " + strconv.QuoteToGraphic(p.keyField)
	case accesslog.IP:
		return "an ip"
	}
	return "a " + f.String()
}

func (p *passage) lacks() jsonLacking {
	all := jsonLacking{}
	for f, n := range p.lacking {
		all[f.String()] = n
	}
	return all
}
