//go:build figures

package benchmarks

import (
	"flag"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/benchmarks/figure"
)

var (
	area    = flag.String("area", "", "the area to measure")
	only    = flag.String("only", "", "a part of the names of the workloads to measure; all if empty")
	results = flag.String("results", "", "the directory to write the figures to")
	strict  = flag.Bool("goals", false, "fail when a goal is missed")
)

// TestFigures measures an area. Limiters take turns, so that other load on the machine affects
// all of them.
func TestFigures(t *testing.T) {
	result := figure.Result{
		Area: *area, Commit: commit(), Go: runtime.Version(), CPU: cpu(), CPUs: runtime.NumCPU(),
		Date: time.Now().UTC().Format(time.DateOnly),
	}
	switch *area {
	case "step":
		result.Figures, result.Goals = stepArea()
	case "memory":
		result.Figures, result.Goals = memoryArea(t)
	case "replay":
		result.Figures, result.Goals = replayArea(t)
	default:
		result.Figures, result.Goals = networkArea(t)
		result.Setup = setups[*area]
	}
	t.Log("\n" + table(result.Figures))
	for _, g := range result.Goals {
		t.Log(describe(g))
	}
	if len(result.Figures) == 0 {
		t.Fatalf("-area %q -only %q: there is no such workload; areas are step, memory, redis, postgres, sqlite and replay", *area, *only)
	}
	if *results != "" {
		must(t, result.Write(*results))
	}
	if missed := func(g figure.Goal) bool { return !g.Met() }; *strict && slices.ContainsFunc(result.Goals, missed) {
		t.Error("a goal was missed")
	}
}

// commit returns the commit that is checked out. It appends a + if files differ from it, except
// those that benchmarks write.
func commit() string {
	hash, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changes, err := exec.Command("git", "status", "--porcelain", "--", ":(top)",
		":(top,exclude)benchmarks/results", ":(top,exclude)benchmarks/README.md").Output()
	if err != nil || len(changes) > 0 {
		return strings.TrimSpace(string(hash)) + "+"
	}
	return strings.TrimSpace(string(hash))
}

func cpu() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// setups are texts for the page about workloads on servers.
var setups = map[string]string{
	"redis":    "4x16 means 4 processes with 16 callers each." + contextPerCall + contextOfDenials + clients,
	"postgres": "4x16 means 4 processes with 16 callers each." + contextPerCall + clients,
	"sqlite":   "4x4 means 4 processes with 4 callers each." + contextPerCall + clients,
}

const (
	contextPerCall   = " Each call has a new context with a deadline."
	contextOfDenials = ` In the row "denied", each caller makes a new context once a second.`
	clients          = " Clients use the options that docs/recipes.md recommends. The processes of a row start together."
)

// selected reports whether -only selects a workload.
func selected(area, name string) bool { return strings.Contains(area+" "+name, *only) }

// networkArea measures an area with servers. With -only, only the limiters that goals name take part.
func networkArea(t testing.TB) (figures []figure.Figure, goals []figure.Goal) {
	for _, w := range workloads() {
		if w.area != *area || !selected(w.area, w.name) {
			continue
		}
		if *only != "" {
			w = w.onlyGoals()
		}
		f, g := w.measure(t)
		figures, goals = append(figures, f...), append(goals, g...)
	}
	if *area == "redis" && selected("redis", timeOfRedis) {
		f, g := redisTimeFigures(t)
		figures, goals = append(figures, f...), append(goals, g...)
	}
	return figures, goals
}
