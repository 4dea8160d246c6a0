package benchmarks

import (
	"fmt"
	"strings"
	"testing"
)

// scriptTime is how often Redis ran scripts, and how long that took.
type scriptTime struct {
	runs, micros float64
}

// timeScripts returns the time of the scripts that Redis runs while work runs. It includes the commands that
// the scripts call. Reading the command from the client and writing the reply are not included.
func timeScripts(t testing.TB, work func()) scriptTime {
	before := scriptsSoFar(t)
	work()
	after := scriptsSoFar(t)
	return scriptTime{after.runs - before.runs, after.micros - before.micros}
}

// scriptsSoFar returns the time of all scripts since the server started.
func scriptsSoFar(t testing.TB) (sum scriptTime) {
	text, err := shared.Redis(t).Do("INFO", "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		command, stats, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		switch command {
		case "eval", "evalsha", "fcall", "eval_ro", "evalsha_ro", "fcall_ro":
			var s scriptTime
			if _, err := fmt.Sscanf(stats, "calls=%f,usec=%f,", &s.runs, &s.micros); err != nil {
				t.Fatalf("INFO commandstats of Redis has the line %q: %v", line, err)
			}
			sum.runs, sum.micros = sum.runs+s.runs, sum.micros+s.micros
		}
	}
	return sum
}
