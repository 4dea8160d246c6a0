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

// texts has the limits of the figures for each area, and for some areas an explanation of where the
// time goes.
//
//go:embed limits/*.md why/*.md
var texts embed.FS

func main() {
	if err := render("results", "README.md"); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func render(results, page string) error {
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
		fmt.Fprintf(&text, "\n## %s\n\n", a.title)
		write(&text, r, picture)
		if err := explain(&text, r.Area); err != nil {
			return err
		}
	}
	return os.WriteFile(page, []byte(text.String()), 0o666)
}

// explain writes the limits of the figures, which every area must have, and where the time goes,
// if there is such a text.
func explain(text *strings.Builder, area string) error {
	limits, err := texts.ReadFile("limits/" + area + ".md")
	if err != nil {
		return fmt.Errorf("limits of the figures of %s: %w", area, err)
	}
	fmt.Fprintf(text, "\n### Limits of these figures\n\n%s", limits)
	why, err := texts.ReadFile("why/" + area + ".md")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	fmt.Fprintf(text, "\n### Where the time goes\n\n%s", why)
	return err
}

func write(text *strings.Builder, r figure.Result, picture string) {
	fmt.Fprintf(text, "Measured on %s, commit %s, %s, %d × %s.", r.Date, r.Commit, r.Go, r.CPUs, r.CPU)
	if r.Setup != "" {
		text.WriteString(" " + r.Setup)
	}
	fmt.Fprintf(text, "\n\n![%s](%s)\n\n", r.Area, picture)
	if len(r.Goals) > 0 {
		text.WriteString("| measured | compared with | ratio | middle half of the rounds | goal | |\n|---|---|---|---|---|---|\n")
		for _, g := range r.Goals {
			fmt.Fprintf(text, "| %s, %s | %s | %.2f | %s | %s %.3g | %s |\n", g.Work, g.What, g.To, g.Ratio, middleHalf(g), sign(g), g.Goal, verdict(g))
		}
		text.WriteString("\n")
	}
	text.WriteString("| work | | | p50 | p99 |\n|---|---|---|---|---|\n")
	last := ""
	for _, f := range r.Figures {
		work := f.Work
		if work == last {
			work = ""
		}
		last = f.Work
		name := f.Name
		if f.Ours {
			name = "**" + name + "**"
		}
		if f.Failed > 0 {
			name += fmt.Sprintf(" (%.0f%% of its calls failed)", 100*f.Failed)
		}
		fmt.Fprintf(text, "| %s | %s | %s %s | %s | %s |\n", work, name, number(f.Value), f.Unit, latency(f.P50), latency(f.P99))
	}
}

// middleHalf returns the range of the ratios without the lowest and the highest quarter.
func middleHalf(g figure.Goal) string {
	if g.High == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f to %.2f", g.Low, g.High)
}

func sign(g figure.Goal) string {
	if g.Most {
		return "≤"
	}
	return "≥"
}

func verdict(g figure.Goal) string {
	if g.Met() {
		return "met"
	}
	return "**missed**"
}
