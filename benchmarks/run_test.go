//go:build figures

package benchmarks

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
)

var (
	area    = flag.String("area", "", "the area to measure figures of: redis, postgres or sqlite")
	only    = flag.String("only", "", "the one work of it to measure")
	results = flag.String("results", "", "the file to write the figures to, as JSON")
	strict  = flag.Bool("goals", false, "fail when a goal is missed")
)

// TestFigures measures the works of an area. Contenders take turns, so that
// whatever else the machine does falls on all of them.
func TestFigures(t *testing.T) {
	var rows []row
	missed := false
	for _, w := range works() {
		if w.area != *area || *only != "" && w.name != *only {
			continue
		}
		measured := w.measure(t)
		ours := measured[0]
		for i := range measured {
			measured[i].Ratio = ours.PerSecond / measured[i].PerSecond
		}
		t.Logf("%s\n%s", w.name, table(measured))
		for _, g := range w.goals {
			missed = w.judge(t, g, measured) || missed
		}
		rows = append(rows, measured...)
	}
	if *results != "" {
		text, err := json.MarshalIndent(rows, "", "\t")
		if err == nil {
			err = os.WriteFile(*results, append(text, '\n'), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if *strict && missed {
		t.Error("a goal was missed")
	}
}
