//go:build figures

package benchmarks

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/benchmarks/figure"
)

var (
	area    = flag.String("area", "", "the area to measure")
	only    = flag.String("only", "", "a part of the area and name of the works to measure; all if empty")
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
const setup = "4x16 means 4 processes of 16 callers each. Each call has a context of its own, with a " +
	"deadline; only in a row of denials a caller keeps one for a second. Clients have the options that " +
	"the README of sluice recommends. The processes of a row begin together."

// asked reports whether -only asks for a work.
func asked(area, name string) bool { return strings.Contains(area+" "+name, *only) }

// networkArea is the works of an area. With -only, just the contenders that goals name take part.
func networkArea(t testing.TB) (figures []figure.Figure, goals []figure.Goal) {
	for _, w := range works() {
		if w.area != *area || !asked(w.area, w.name) {
			continue
		}
		if *only != "" {
			w = w.onlyGoals()
		}
		f, g := w.measure(t)
		figures, goals = append(figures, f...), append(goals, g...)
	}
	return figures, goals
}
