// Command render writes README.md of the benchmarks, and a chart for each area, from the results
// of scripts/bench.sh. Run it in the directory benchmarks.
package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/sluice-go/sluice/benchmarks/figure"
)

// areas are in the order of the page.
var areas = []struct{ name, title string }{
	{"step", "One step, as a pure function"},
	{"memory", "A limiter in memory"},
	{"redis", "A limiter on Redis"},
	{"postgres", "A limiter on Postgres"},
	{"sqlite", "A limiter on SQLite"},
	{"replay", "Replaying a log"},
}

//go:embed head.md
var head string

// texts has the page of an area, the limits of the figures for each area, and for some areas an
// explanation of where the time goes.
//
//go:embed area.tmpl limits/*.md why/*.md
var texts embed.FS

func main() {
	if err := render("results", "README.md"); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func render(results, page string) error {
	section, err := template.New("area.tmpl").Funcs(template.FuncMap{
		"number": number, "latency": latency,
		"percent": func(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) },
	}).ParseFS(texts, "area.tmpl")
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString(head)
	for _, a := range areas {
		r, err := figure.Read(results, a.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s of %s: %w", a.name, results, err)
		}
		r.ByWork()
		picture := filepath.Join(results, a.name+".svg")
		if err := draw(r, picture); err != nil {
			return err
		}
		limits, err := texts.ReadFile("limits/" + a.name + ".md")
		if err != nil {
			return fmt.Errorf("limits of the figures of %s: %w", a.name, err)
		}
		why, err := texts.ReadFile("why/" + a.name + ".md")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := section.Execute(&text, struct {
			figure.Result
			Title, Picture, Limits, Why string
		}{r, a.title, picture, string(limits), string(why)}); err != nil {
			return err
		}
	}
	return os.WriteFile(page, []byte(text.String()), 0o666)
}
