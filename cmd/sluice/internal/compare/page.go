package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template"
)

//go:embed page.tmpl
var pageText string

// page returns the page with a table for each section.
func page(sections []section) ([]byte, error) {
	t, err := template.New("page.tmpl").Funcs(template.FuncMap{
		"limit": func() string { return limit.String() },
		"table": func(name string) (string, error) { return table(sections, name) },
	}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, nil)
	return b.Bytes(), err
}

func table(sections []section, name string) (string, error) {
	for _, s := range sections {
		if s.name == name {
			return s.table(), nil
		}
	}
	return "", fmt.Errorf("page.tmpl: unknown pattern %q", name)
}

func (s *section) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %d requests | admitted | worst period | bound | over-denied | wait, mean | p99 | exact wait, mean | p99 |\n", len(s.requests))
	b.WriteString("| --- |" + strings.Repeat(" ---: |", 8))
	for _, o := range s.outcomes {
		fmt.Fprintf(&b, "\n| %s | %s | %s | %s | %s | %s | %s | %s | %s |", o.name,
			percent(o.share()), multiple(o.worstPeriod()), multiple(o.worstEver()), percent(o.overDenied()),
			seconds(mean(o.waits)), seconds(p99(o.waits)), seconds(mean(o.exactWaits)), seconds(p99(o.exactWaits)))
	}
	return b.String()
}
