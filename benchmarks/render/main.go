// Command render writes README.md of the benchmarks from the results of scripts/bench.sh. Run it in
// the directory benchmarks.
package main

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"text/template"
	"time"

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
		"number": number, "latency": latency, "bar": bar,
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
		limits, _ := texts.ReadFile("limits/" + a.name + ".md") // a test requires it
		why, _ := texts.ReadFile("why/" + a.name + ".md")       // not every area has one
		if err := section.Execute(&text, struct {
			figure.Result
			Title, Limits, Why string
		}{r, a.title, string(limits), string(why)}); err != nil {
			return err
		}
	}
	return os.WriteFile(page, []byte(text.String()), 0o666)
}

// bar draws a figure. The largest figure of its workload has the full length.
func bar(f figure.Figure, all []figure.Figure) string {
	const length = 20
	most := 0.0
	for _, other := range all {
		if other.Work == f.Work {
			most = max(most, other.Value)
		}
	}
	return strings.Repeat("█", int(math.Round(length*f.Value/cmp.Or(most, 1))))
}

// number formats x with three significant digits and commas.
func number(x float64) string {
	if x < 1000 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-2)
	digits := strconv.FormatInt(int64(math.Round(x/unit)*unit), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func latency(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Round(time.Microsecond).Microseconds())
	}
	return fmt.Sprintf("%.3g ms", float64(d)/1e6)
}
