//go:build figures

package benchmarks

import (
	"flag"
	"slices"
	"testing"

	"github.com/sluice-go/sluice/benchmarks/figure"
)

var (
	area    = flag.String("area", "", "the area to measure")
	only    = flag.String("only", "", "the one work of it to measure")
	results = flag.String("results", "", "the directory to write the figures to")
	strict  = flag.Bool("goals", false, "fail when a goal is missed")
)

// TestFigures measures an area. Contenders take turns, so that whatever else the
// machine does falls on all of them.
func TestFigures(t *testing.T) {
	result := figure.NewResult(*area)
	for _, w := range works() {
		if w.area != *area || *only != "" && w.name != *only {
			continue
		}
		figures := w.measure(t)
		result.Figures = append(result.Figures, figures...)
		t.Logf("%s\n%s", w.name, table(figures))
		for _, g := range w.goals {
			goal := w.judge(g, figures)
			result.Goals = append(result.Goals, goal)
			t.Log(sentence(goal))
		}
	}
	if len(result.Figures) == 0 {
		t.Fatalf("-area %q -only %q: there is no such work", *area, *only)
	}
	if *results != "" {
		if err := result.Write(*results); err != nil {
			t.Fatal(err)
		}
	}
	if missed := func(g figure.Goal) bool { return !g.Met() }; *strict && slices.ContainsFunc(result.Goals, missed) {
		t.Error("a goal was missed")
	}
}
