package benchmarks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/benchmarks/figure"
)

// redisTotals are totals since the server started.
type redisTotals struct {
	reads           float64 // from clients; the commands of one pipeline are read together
	scripts, micros float64 // how often scripts ran, and how long that took, with the commands that they call
}

func redisInfo(t testing.TB) (sum redisTotals) {
	text, err := shared.Redis(t).Do("INFO", "all")
	must(t, err)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "total_reads_processed":
			_, err = fmt.Sscan(value, &sum.reads)
		case "eval", "evalsha", "fcall", "eval_ro", "evalsha_ro", "fcall_ro":
			var scripts, micros float64
			_, err = fmt.Sscanf(value, "calls=%f,usec=%f,", &scripts, &micros)
			sum.scripts, sum.micros = sum.scripts+scripts, sum.micros+micros
		}
		must(t, err)
	}
	if sum.reads == 0 {
		t.Fatal("INFO of Redis has no total_reads_processed")
	}
	return sum
}

// during returns what the server does while work runs. The reads of the counting itself are left out.
func during(t testing.TB, work func()) (done redisTotals) {
	first := redisInfo(t)
	before := redisInfo(t)
	work()
	after := redisInfo(t)
	return redisTotals{after.reads - before.reads - (before.reads - first.reads), after.scripts - before.scripts, after.micros - before.micros}
}

// redisTripsOfDenials counts the round trips of callers whose calls are all denied. A process may
// make one round trip each second for each key, and one more at the start.
func redisTripsOfDenials(t testing.TB, w *work, ours decideFunc) (figure.Figure, figure.Goal) {
	const seconds = 3
	trips := during(t, func() {
		if err := w.limiters[0].check(w.loadGenerator(ours).run(seconds * time.Second)); err != nil {
			t.Fatalf("%s: %v", w.title(), err)
		}
	}).reads
	allowed := float64(w.keys * (seconds + 1))
	return figure.Figure{Work: w.name + ", round trips", Name: "sluice", Value: trips, Unit: fmt.Sprintf("in %d s", seconds), Ours: true},
		figure.Goal{Work: w.name, To: fmt.Sprintf("%.0f", allowed), What: fmt.Sprintf("round trips in %d s", seconds), Ratio: trips / allowed, Goal: 1, Most: true}
}
