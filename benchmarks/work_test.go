package benchmarks

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

var (
	area    = flag.String("area", "", "the area to measure figures of: redis, postgres or sqlite")
	rounds  = flag.Int("rounds", 5, "how often each contender has its turn; the median counts")
	stretch = flag.Duration("stretch", time.Second, "how long a turn is")
	results = flag.String("results", "", "the file to write the figures to, as JSON")
	goals   = flag.Bool("goals", false, "fail when a goal is missed")
)

// work is something that contenders are asked to do, in turns.
type work struct {
	area, name string
	keys       int
	goroutines int
	denied     bool        // the limit is used up; else all calls are allowed
	contenders []contender // ours first
	goals      []ratio
	// run is how a turn is taken, nil for crowd.
	run func(w *work, c contender, d decider, length time.Duration) pace
}

// ratio is how many times the pace of another ours must be. A goal of 1 on slow is
// that our p99 is below the other's p50.
type ratio struct {
	to   string
	goal float64
	p99  bool
}

// row is what was measured of one contender at one work.
type row struct {
	Area       string `json:"area"`
	Work       string `json:"work"`
	Keys       int    `json:"keys"`
	Goroutines int    `json:"goroutines"`
	Name       string `json:"name"`
	pace
	Ratio float64 `json:"ratio,omitempty"` // of ours to this one
	Goal  float64 `json:"goal,omitempty"`
}

// TestFigures measures the works of an area. Contenders take turns, so that
// whatever else the machine does falls on all of them.
func TestFigures(t *testing.T) {
	if *area == "" {
		t.Skip("figures are measured by scripts/bench.sh")
	}
	var rows []row
	missed := false
	for _, w := range works() {
		if w.area != *area {
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
	if *goals && missed {
		t.Error("a goal was missed")
	}
}

// judge says how a goal fared, and whether it was missed.
func (w *work) judge(t testing.TB, g ratio, measured []row) (missed bool) {
	i := slices.IndexFunc(measured, func(r row) bool { return r.Name == g.to })
	ours, peer := measured[0], &measured[i]
	if g.p99 {
		missed = ours.P99 >= peer.P50
		t.Logf("%-44s p99 %v, p50 of %s %v %s", w.name, ours.P99, g.to, peer.P50, verdict(missed))
		return missed
	}
	peer.Goal = g.goal
	missed = peer.Ratio < g.goal
	t.Logf("%-44s %.2f of %s, goal %.2f %s", w.name, peer.Ratio, g.to, g.goal, verdict(missed))
	return missed
}

func verdict(missed bool) string {
	if missed {
		return "MISSED"
	}
	return "met"
}

func table(rows []row) (text string) {
	for _, r := range rows {
		text += fmt.Sprintf("    %-24s %10.0f /s  p50 %8v  p99 %8v", r.Name, r.PerSecond, r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond))
		if r.Failed > 0 {
			text += fmt.Sprintf("  %.1f%% failed", 100*r.Failed)
		}
		text += "\n"
	}
	return text
}

func (w *work) measure(t testing.TB) (rows []row) {
	count, period := int64(plenty), plentyPeriod
	if w.denied {
		count, period = 1, 50_000*time.Hour
	}
	keys := newTraffic(w.keys)
	deciders, paces := make([]decider, len(w.contenders)), make([][]pace, len(w.contenders))
	for i, c := range w.contenders {
		deciders[i] = c.open(t, count, period)
		warm := crowd // every key is there, and every connection open
		warm(deciders[i], &traffic{keys.keys, keys.order}, w.goroutines, *stretch/4, true && !w.denied)
	}
	for range *rounds {
		for i, c := range w.contenders {
			if w.run != nil {
				paces[i] = append(paces[i], w.run(w, c, deciders[i], *stretch))
			} else {
				paces[i] = append(paces[i], crowd(deciders[i], keys, w.goroutines, *stretch, !w.denied))
			}
		}
	}
	for i, c := range w.contenders {
		rows = append(rows, row{Area: w.area, Work: w.name, Keys: w.keys, Goroutines: w.goroutines, Name: c.name, pace: median(paces[i])})
	}
	return rows
}
