// Command compare runs the same requests through every algorithm and option. It reports the
// share of requests that each admits, how far each goes over the limit, how many requests each
// denies unnecessarily, and the waits that it returns. The reference is an exact log of all
// admissions, which is correct but too large for a limiter.
//
// At the root of the repository it writes the page, the same bytes every time:
//
//	go run ./cmd/sluice/internal/compare
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"text/template"
	"time"
)

//go:embed page.tmpl
var pageText string

func main() {
	text, err := render()
	if err == nil {
		err = os.WriteFile("benchmarks/compare/README.md", text, 0o644)
	}
	if err != nil {
		log.Fatal("compare: ", err)
	}
}

// render returns the page, which has a table for each pattern.
func render() ([]byte, error) {
	sections, err := compare()
	if err != nil {
		return nil, err
	}
	t, err := template.New("page.tmpl").Funcs(template.FuncMap{
		"limit": limit.String,
		"table": func(name string) (string, error) {
			i := slices.IndexFunc(sections, func(s section) bool { return s.name == name })
			if i < 0 {
				return "", fmt.Errorf("page.tmpl: unknown pattern %q", name)
			}
			return sections[i].table(), nil
		},
	}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, nil)
	return b.Bytes(), err
}

func (s *section) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %d requests | admitted | worst period | bound | over-denied | wait, mean | p99 | exact wait, mean | p99 |\n", len(s.requests))
	b.WriteString("| --- |" + strings.Repeat(" ---: |", 8))
	for _, o := range s.outcomes {
		share := float64(o.admitted) / float64(o.requests)
		overDenied := float64(o.needless) / float64(max(1, len(o.waits)))
		fmt.Fprintf(&b, "\n| %s | %.1f%% | %.2f | %.2f | %.1f%% | %.1fs | %.1fs | %.1fs | %.1fs |", o.name, 100*share,
			float64(o.worst)/float64(limit.Count), float64(o.bound)/float64(limit.Count), 100*overDenied,
			mean(o.waits).Seconds(), p99(o.waits).Seconds(), mean(o.exactWaits).Seconds(), p99(o.exactWaits).Seconds())
	}
	return b.String()
}

// mean returns 0 if there are no waits.
func mean(waits []time.Duration) time.Duration {
	var sum time.Duration
	for _, w := range waits {
		sum += w
	}
	return sum / time.Duration(max(1, len(waits)))
}

// p99 returns the 99th percentile of sorted waits; 0 if there are none.
func p99(waits []time.Duration) time.Duration {
	if len(waits) == 0 {
		return 0
	}
	return waits[(99*len(waits)+99)/100-1]
}
