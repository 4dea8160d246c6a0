//go:build figures

package benchmarks

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-go/sluice/benchmarks/figure"
)

// A runner makes n calls.
type runner struct {
	name string
	run  func(n int)
}

// turns lets the runners make that many calls in turn, round after round. It returns the time of a
// call in ns, for each runner and round. Turns are short, so that other load on the machine
// affects all runners.
func turns(runners []runner, calls, times int, clock func() time.Duration) (taken [][]float64) {
	taken = make([][]float64, len(runners))
	for range times {
		for i, r := range runners {
			began := clock()
			r.run(calls)
			taken[i] = append(taken[i], float64(clock()-began)/float64(calls))
		}
	}
	return taken
}

// processorTime returns the processor time of this process. It is the clock for one goroutine,
// because a shared machine may run something else for most of a turn.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func wallTime() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

// measureInTurns returns the figures of runners, sluice first.
func measureInTurns(name string, runners []runner, calls, times int, clock func() time.Duration) (figures []figure.Figure, taken [][]float64) {
	taken = turns(runners, calls, times, clock)
	for i, r := range runners {
		figures = append(figures, figure.Figure{Work: name, Name: r.name, Value: median(taken[i]), Unit: "ns", Ours: i == 0})
	}
	return figures, taken
}

// compareWithBest compares sluice, the first, with the fastest of the other limiters.
func compareWithBest(work string, figures []figure.Figure, taken [][]float64, peers int, goal float64) figure.Goal {
	best := 1
	for i := range figures[:1+peers] {
		if i > 0 && figures[i].Value < figures[best].Value {
			best = i
		}
	}
	return compare(work, figures[best].Name, taken[0], taken[best], goal)
}

// compare compares the median of the ratios of all rounds with a goal.
func compare(work, peer string, ours, theirs []float64, goal float64) figure.Goal {
	var ratios []float64
	for i := range ours {
		ratios = append(ratios, ours[i]/theirs[i])
	}
	g := figure.Goal{Work: work, To: peer, What: "ns", Goal: goal, Most: true}
	setRounds(&g, ratios)
	return g
}

// stepArea measures one step of each algorithm, and x/time/rate, in turns.
func stepArea(t testing.TB) (figures []figure.Figure, goals []figure.Goal) {
	if err := flag.Set("test.benchtime", "50ms"); err != nil {
		t.Fatal(err)
	}
	const peer = "x/time/rate AllowN"
	for _, c := range []struct {
		name      string
		benchmark func(*testing.B)
		goal      float64
	}{
		{"gcra.Step", BenchmarkStepGCRA, 0.3},
		{"tokenbucket.Step", BenchmarkStepTokenBucket, 0.3},
		{"fixedwindow.Step", BenchmarkStepFixedWindow, 0.5},
		{"movingwindow.Step, two counters", BenchmarkStepMovingWindow1, 1},
		{"movingwindow.Step, 12 slots", BenchmarkStepMovingWindow12, 2},
	} {
		if !selected("step", c.name) {
			continue
		}
		ours, theirs := []float64{}, []float64{}
		for range 21 {
			ours = append(ours, nanoseconds(c.benchmark))
			theirs = append(theirs, nanoseconds(BenchmarkStepPeerRateAllowN))
		}
		figures = append(figures,
			figure.Figure{Work: c.name, Name: "sluice", Value: median(ours), Unit: "ns", Ours: true},
			figure.Figure{Work: c.name, Name: peer, Value: median(theirs), Unit: "ns"})
		goals = append(goals, compare(c.name, peer, ours, theirs, c.goal))
	}
	return figures, goals
}

func nanoseconds(benchmark func(*testing.B)) float64 {
	r := testing.Benchmark(benchmark)
	return float64(r.T.Nanoseconds()) / float64(r.N)
}

// memoryArea measures limiters in memory.
func memoryArea(t testing.TB) (figures []figure.Figure, goals []figure.Goal) {
	figures, goals = heapFigures(t) // first, while the heap is empty
	for _, c := range []struct {
		keys int
		name string
		goal float64
	}{
		{1, "1 key", 1},
		{1000, "1,000 keys", 1},
		{100_000, "100,000 keys", 0.8},
		{1_000_000, "1,000,000 keys", 0.8},
	} {
		for goroutines := 1; goroutines <= 2; goroutines++ {
			if name := fmt.Sprintf("%s, goroutines: %d", c.name, goroutines); selected("memory", name) {
				f, g := decisionFigures(t, name, c.keys, goroutines, c.goal)
				figures, goals = append(figures, f...), append(goals, g)
			}
		}
	}
	if selected("memory", clockWork) {
		figures = append(figures, clockFigures(t)...)
	}
	allocations, none := allocationFigures(t)
	return append(figures, allocations...), append(goals, none...)
}

// decisionFigures measures one decision of each limiter and floor.
func decisionFigures(t testing.TB, name string, keys, goroutines int, goal float64) ([]figure.Figure, figure.Goal) {
	clock, least := processorTime, floorGCRA
	if goroutines > 1 {
		clock, least = wallTime(), floorGCRAShared
	}
	limiters := slices.Clone(inMemory)
	if *only == "" {
		limiters = append(limiters, least, mapAndAtomic)
	}
	sequence, from := newSequence(keys), 0
	var runners []runner
	for i, p := range limiters {
		allow := p.open(t, highLimit, highLimitPeriod)
		callEachKey(allow, sequence)
		runners = append(runners, runner{p.name, func(n int) {
			if denied := callConcurrently(allow, sequence, goroutines, from, n); denied > 0 && i == 0 {
				t.Fatalf("memory %s: %s denied %d of %d calls", name, p.name, denied, n)
			}
			from += 7919
		}})
	}
	figures, taken := measureInTurns(name, runners, 20_000, 101, clock)
	return figures, compareWithBest(name, figures, taken, len(inMemory)-1, goal)
}

const clockWork = "a reading of the clock"

// clockFigures measures reading the clock.
func clockFigures(t testing.TB) (figures []figure.Figure) {
	sequence := newSequence(1)
	var runners []runner
	for _, s := range []memoryLimiter{wallClock, monotonicClock} {
		read := s.open(t, highLimit, highLimitPeriod)
		runners = append(runners, runner{s.name, func(n int) { callInOrder(read, sequence, 0, n) }})
	}
	figures, _ = measureInTurns(clockWork, runners, 20_000, 101, processorTime)
	figures[0].Ours = false // it is a floor
	return figures
}

// heapFigures measures the heap of a million keys, and a garbage collection.
func heapFigures(t testing.TB) (figures []figure.Figure, goals []figure.Goal) {
	for _, length := range []int{16, 200} {
		keys := fmt.Sprintf("1,000,000 keys of %d bytes", length)
		heap, collection := "heap, "+keys, "forced garbage collection, "+keys
		if !selected("memory", heap) && !selected("memory", collection) {
			continue
		}
		var bytes, times []figure.Figure
		for i, p := range heapLimiters() {
			perKey, took := measureHeap(t, p, 1_000_000, length)
			bytes = append(bytes, figure.Figure{Work: heap, Name: p.name, Value: perKey, Unit: "B a key", Ours: i == 0})
			times = append(times, figure.Figure{Work: collection, Name: p.name, Value: float64(took) / 1e6, Unit: "ms", Ours: i == 0})
			runtime.GC()
		}
		figures = slices.Concat(figures, bytes, times)
		goals = append(goals,
			figure.Goal{Work: heap, To: "64 B a key", What: "size", Ratio: bytes[0].Value / 64, Goal: 1, Most: true},
			figure.Goal{Work: collection, To: "2 ms", What: "time", Ratio: times[0].Value / 2, Goal: 1, Most: true})
	}
	return figures, goals
}

// heapLimiters returns all limiters, or with -only just sluice: these goals name no other limiter.
func heapLimiters() []memoryLimiter {
	if *only != "" {
		return inMemory[:1]
	}
	return inMemory
}

// allocationFigures measures the allocations of a decision by sluice.
func allocationFigures(t testing.TB) (figures []figure.Figure, goals []figure.Goal) {
	for _, rules := range []int{1, 3} {
		work := fmt.Sprintf("allocations, rules: %d", rules)
		if !selected("memory", work) {
			continue
		}
		allow := openSluiceRules(t, highLimit, highLimitPeriod, rules)
		n := testing.AllocsPerRun(10_000, func() { allow("0123456789abcdef") })
		figures = append(figures, figure.Figure{Work: work, Name: "sluice", Value: n, Unit: "a decision", Ours: true})
		goals = append(goals, figure.Goal{Work: work, To: "none", What: "a decision", Ratio: n, Goal: 0, Most: true})
	}
	return figures, goals
}
