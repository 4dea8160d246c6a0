package benchmarks

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/benchmarks/figure"
)

// redisTripsOfDenials counts the round trips of callers whose calls are all denied. A process may
// make one round trip each second for each key, and one more at the start.
func redisTripsOfDenials(t testing.TB, w *work, ours decideFunc) (figure.Figure, figure.Goal) {
	const seconds = 3
	trips := redisTrips(t, func() {
		if err := w.limiters[0].check(w.loadGenerator(ours).run(seconds * time.Second)); err != nil {
			t.Fatalf("%s: %v", w.title(), err)
		}
	})
	allowed := float64(w.keys * (seconds + 1))
	return figure.Figure{Work: w.name + ", round trips", Name: "sluice", Value: trips, Unit: fmt.Sprintf("in %d s", seconds), Ours: true},
		figure.Goal{Work: w.name, To: fmt.Sprintf("%.0f", allowed), What: fmt.Sprintf("round trips in %d s", seconds), Ratio: trips / allowed, Goal: 1, Most: true}
}

// redisTrips returns how often the server reads from its clients while work runs. It reads the
// commands of one pipeline together.
func redisTrips(t testing.TB, work func()) float64 {
	first := redisReads(t)
	before := redisReads(t)
	work()
	return redisReads(t) - before - (before - first) // without the reads of the count itself
}

func redisReads(t testing.TB) float64 {
	text, err := shared.Redis(t).Do("INFO", "stats")
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(text, "total_reads_processed:")
	value, _, _ = strings.Cut(value, "\r\n")
	reads, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(reads) {
		t.Fatalf("INFO stats of Redis has no total_reads_processed: %q", text)
	}
	return reads
}
