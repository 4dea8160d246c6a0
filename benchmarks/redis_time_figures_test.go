//go:build figures

package benchmarks

import (
	"runtime"
	"testing"
	"time"

	"github.com/sluice-go/sluice/benchmarks/figure"
)

// timeOfRedis is the name of the rows about the time that the server itself takes for a decision.
const timeOfRedis = "time of Redis for a decision"

// redisTimeFigures measures the time of the server's scripts. redis_rate decides each call alone. sluice does
// so for one caller. 64 callers share batches: two are in flight, so a batch has about 32 requests.
func redisTimeFigures(t testing.TB) (figures []figure.Figure, goals []figure.Goal) {
	contenders := []struct {
		name    string
		limiter serverLimiter
		callers int
		what    string  // what the goal is about
		goal    float64 // 0 for redis_rate
	}{
		{"sluice, batches of 64 callers", sluiceOnRedis, 64, "batches of 64 callers", 0.28},
		{"sluice, alone", sluiceOnRedis, 1, "alone", 1.05},
		{"redis_rate, alone", redisRate, 1, "", 0},
	}
	var turns []func() (micros, batch float64)
	for _, c := range contenders {
		w := work{area: "redis", name: timeOfRedis, keys: 10_000, goroutines: c.callers}
		turns = append(turns, w.timeTurns(t, c.limiter))
	}
	times, batches := make([][]float64, len(turns)), []float64{}
	for range timedTurns * *rounds {
		for i, turn := range turns {
			micros, batch := turn()
			times[i] = append(times[i], micros)
			if i == 0 {
				batches = append(batches, batch)
			}
		}
	}
	const peer = 2
	for i, c := range contenders {
		figures = append(figures, figure.Figure{Work: timeOfRedis, Name: c.name, Value: median(times[i]), Unit: "µs", Ours: i != peer})
		if i != peer {
			goal := figure.Goal{Work: timeOfRedis, To: contenders[peer].name, What: c.what, Goal: c.goal, Most: true}
			goals = append(goals, compare(goal, times[i], times[peer]))
		}
	}
	return append(figures, figure.Figure{
		Work: timeOfRedis + ", requests in a batch", Name: contenders[0].name, Value: median(batches), Unit: "requests", Ours: true,
	}), goals
}

// timedTurns is how many turns of redisTimeFigures take as long as a usual turn. The time of a script changes
// from second to second, so that many short turns are better than a few long ones.
const timedTurns = 5

// timeTurns opens a limiter. turn returns the time of the scripts for a decision, and how many decisions a
// script makes on average.
func (w *work) timeTurns(t testing.TB, c serverLimiter) (turn func() (micros, batch float64)) {
	callers := w.loadGenerator(c.open(t, w.count(), w.period()))
	check := func(m Measurement) Measurement {
		if err := c.check(m); err != nil {
			t.Fatalf("%s: %v", w.title(), err)
		}
		return m
	}
	check(callers.warmUp())
	return func() (micros, batch float64) {
		runtime.GC() // so that no limiter collects the garbage of another
		var m Measurement
		done := during(t, func() { m = check(callers.run(*stretch / time.Duration(timedTurns))) })
		if done.scripts == 0 {
			t.Fatalf("%s: %s ran no script for %d calls", w.title(), c.name, m.Calls)
		}
		return done.micros / float64(m.Calls), float64(m.Calls) / done.scripts
	}
}
