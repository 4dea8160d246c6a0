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
	"flag"
	"log"
	"os"
)

func main() {
	out := flag.String("out", "benchmarks/compare/README.md", "the `file` to write")
	flag.Parse()
	text, err := render()
	if err == nil {
		err = os.WriteFile(*out, text, 0o644)
	}
	if err != nil {
		log.Fatal("compare: ", err)
	}
}

// render returns the page.
func render() ([]byte, error) {
	sections, err := compare()
	if err != nil {
		return nil, err
	}
	return page(sections)
}
