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
	switch *area {
	case "step":
		result.Figures, result.Goals = stepArea(t)
	case "memory":
		result.Figures, result.Goals = memoryArea(t)
	case "replay":
		result.Figures, result.Goals = replayArea(t)
	default:
		result.Figures, result.Goals = networkArea(t)
		result.Setup = setup
	}
	t.Log("\n" + table(result.Figures))
	for _, g := range result.Goals {
		t.Log(sentence(g))
	}
	if len(result.Figures) == 0 {
		t.Fatalf("-area %q -only %q: there is no such work; areas are step, memory, redis, postgres, sqlite and replay", *area, *only)
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

// setup is how the works of networkArea are measured.
const setup = "Each call has a context of its own, with a deadline. Clients have the options " +
	"that the README of sluice recommends. Members of a fleet begin together."

// networkArea is the works of an area.
func networkArea(t testing.TB) (figures []figure.Figure, goals []figure.Goal) {
	for _, w := range works() {
		if w.area != *area || *only != "" && w.name != *only {
			continue
		}
		measured := w.measure(t)
		figures = append(figures, measured...)
		for _, g := range w.goals {
			goals = append(goals, w.judge(g, measured))
		}
	}
	return figures, goals
}
