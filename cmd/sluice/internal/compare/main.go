// Command compare runs the same requests through every algorithm and option, and
// tells what share each admits, how far each goes over the limit, whom each turns
// away without need, and for how long. It measures them against the exact log of
// what they admitted: the account that is right, and too long to keep.
//
// At the root of the repository, it writes the page and its pictures, the same bytes
// every time:
//
//	go run ./cmd/sluice/internal/compare
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "benchmarks/compare", "the `directory` to write to")
	flag.Parse()
	files, err := render()
	if err != nil {
		log.Fatal("compare: ", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(*out, name), content, 0o644); err != nil {
			log.Fatal("compare: ", err)
		}
	}
}

// render is every file that the command writes, by name.
func render() (map[string][]byte, error) {
	sections, err := compare()
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, p := range pictures(sections) {
		if files[p.file], err = p.svg(); err != nil {
			return nil, err
		}
	}
	files["README.md"], err = page(sections)
	return files, err
}
