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

// A runner does its work that many times.
type runner struct {
	name string
	run  func(n int)
}

// turns lets runners do so many calls in turn, again and again, and returns the
// median of what each took for a call, in ns. Turns are short, so that whatever
// else the machine does falls on all alike.
func turns(runners []runner, calls, times int, clock func() time.Duration) (ns []float64) {
	taken := make([][]float64, len(runners))
	for range times {
		for i, r := range runners {
			began := clock()
			r.run(calls)
			taken[i] = append(taken[i], float64(clock()-began)/float64(calls))
		}
	}
	for _, t := range taken {
		slices.Sort(t)
		ns = append(ns, t[len(t)/2])
	}
	return ns
}

// processorTime is what this process has had. It is the clock for what runs on one
// goroutine: a shared machine may do something else for most of a turn.
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

// inTurns is the figures of runners, ours first, and how ours fared.
func inTurns(name string, runners []runner, calls, times int, clock func() time.Duration, goals ...ratio) (figures []figure.Figure, fared []figure.Goal) {
	for i, ns := range turns(runners, calls, times, clock) {
		figures = append(figures, figure.Figure{Work: name, Name: runners[i].name, Value: ns, Unit: "ns", Ours: i == 0})
	}
	for _, g := range goals {
		i := slices.IndexFunc(figures, func(f figure.Figure) bool { return f.Name == g.to })
		fared = append(fared, figure.Goal{Work: name, To: g.to, What: "ns", Ratio: figures[0].Value / figures[i].Value, Goal: g.goal, Most: true})
	}
	return figures, fared
}

// stepArea is one step of each algorithm beside x/time/rate: the benchmarks of
// that name, in turns.
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
		{"gcra.Step", BenchmarkStepGCRA, 0.5},
		{"tokenbucket.Step", BenchmarkStepTokenBucket, 0.5},
		{"fixedwindow.Step", BenchmarkStepFixedWindow, 0.5},
		{"movingwindow.Step, two counters", BenchmarkStepMovingWindow1, 1},
		{"movingwindow.Step, 12 slots", BenchmarkStepMovingWindow12, 2},
	} {
		ours, theirs := []float64{}, []float64{}
		for range 21 {
			ours = append(ours, nanoseconds(c.benchmark))
			theirs = append(theirs, nanoseconds(BenchmarkStepPeerRateAllowN))
		}
		slices.Sort(ours)
		slices.Sort(theirs)
		mine, other := ours[len(ours)/2], theirs[len(theirs)/2]
		figures = append(figures,
			figure.Figure{Work: c.name, Name: "sluice", Value: mine, Unit: "ns", Ours: true},
			figure.Figure{Work: c.name, Name: peer, Value: other, Unit: "ns"})
		goals = append(goals, figure.Goal{Work: c.name, To: peer, What: "ns", Ratio: mine / other, Goal: c.goal, Most: true})
	}
	return figures, goals
}

func nanoseconds(benchmark func(*testing.B)) float64 {
	r := testing.Benchmark(benchmark)
	return float64(r.T.Nanoseconds()) / float64(r.N)
}

// memoryArea is a decision of a whole limiter in memory beside others.
func memoryArea(t testing.TB) (figures []figure.Figure, goals []figure.Goal) {
	room, kept := roomFigures(t, inMemory) // first, while there is nothing else to collect
	for _, c := range []struct {
		keys  int
		goals [2]ratio // with one goroutine, and with two
	}{
		{1, [2]ratio{{to: sethvargoMemory.name, goal: 0.8}, {to: sethvargoMemory.name, goal: 0.85}}},
		{1000, [2]ratio{{to: sethvargoMemory.name, goal: 0.9}, {to: sethvargoMemory.name, goal: 0.6}}},
		{100_000, [2]ratio{{to: throttledMemory.name, goal: 0.6}, {to: sethvargoMemory.name, goal: 0.7}}},
		{1_000_000, [2]ratio{{to: sethvargoMemory.name, goal: 0.6}, {to: sethvargoMemory.name, goal: 0.7}}},
	} {
		f, fared := paceFigures(t, c.keys, c.goals)
		figures, goals = append(figures, f...), append(goals, fared...)
	}
	figures = append(figures, clockFigures(t)...)
	return append(figures, room...), append(goals, kept...)
}

// paceFigures is a decision of each limiter and floor on so many keys, with one goroutine
// and with two.
func paceFigures(t testing.TB, keys int, goals [2]ratio) (figures []figure.Figure, fared []figure.Goal) {
	traffic, least := newTraffic(keys), []subject{leastOfGCRA, leastOfGCRAShared}
	contenders := slices.Concat(inMemory, least, []subject{mapAndAtomic})
	var filled []func(string) bool
	for _, p := range contenders {
		allow := p.open(t, plenty, plentyPeriod)
		fill(allow, traffic)
		filled = append(filled, allow)
	}
	for g, clock := range []func() time.Duration{processorTime, wallTime()} {
		var runners []runner
		from := 0
		for i, p := range contenders {
			if p.name != least[1-g].name {
				runners = append(runners, runner{p.name, func(n int) { drive(filled[i], traffic, 1+g, from, n); from += 7919 }})
			}
		}
		f, met := inTurns(fmt.Sprintf("%d keys, %d goroutines", keys, 1+g), runners, 20_000, 101, clock, goals[g])
		figures, fared = append(figures, f...), append(fared, met...)
	}
	return figures, fared
}

// clockFigures is what it takes to know the time.
func clockFigures(t testing.TB) (figures []figure.Figure) {
	traffic := newTraffic(1)
	var runners []runner
	for _, s := range []subject{wallClock, monotonicClock} {
		read := s.open(t, plenty, plentyPeriod)
		runners = append(runners, runner{s.name, func(n int) { walk(read, traffic, 0, n) }})
	}
	figures, _ = inTurns("a reading of the clock", runners, 20_000, 101, processorTime)
	figures[0].Ours = false // it is a floor as well
	return figures
}

// roomFigures is what a million keys take, and the collections that they cost.
func roomFigures(t testing.TB, peers []subject) (figures []figure.Figure, goals []figure.Goal) {
	for i, p := range peers {
		for _, length := range []int{16, 200} {
			perKey, collection := weigh(t, p, 1_000_000, length)
			heap := figure.Figure{Work: fmt.Sprintf("heap, 1,000,000 keys of %d bytes", length), Name: p.name, Value: perKey, Unit: "B a key", Ours: i == 0}
			pause := figure.Figure{Work: fmt.Sprintf("forced collection, 1,000,000 keys of %d bytes", length), Name: p.name, Value: float64(collection) / 1e6, Unit: "ms", Ours: i == 0}
			figures = append(figures, heap, pause)
			if i == 0 {
				goals = append(goals,
					figure.Goal{Work: heap.Work, To: "64 B a key", What: "heap", Ratio: perKey / 64, Goal: 1, Most: true},
					figure.Goal{Work: pause.Work, To: "2 ms", What: "time", Ratio: pause.Value / 2, Goal: 1, Most: true})
			}
			runtime.GC()
		}
	}
	for _, rules := range []int{1, 3} {
		allow := openSluiceRules(t, plenty, plentyPeriod, rules)
		n := testing.AllocsPerRun(10_000, func() { allow("0123456789abcdef") })
		work := fmt.Sprintf("allocations, rules: %d", rules)
		figures = append(figures, figure.Figure{Work: work, Name: "sluice", Value: n, Unit: "a decision", Ours: true})
		goals = append(goals, figure.Goal{Work: work, To: "none", What: "allocations", Ratio: n, Goal: 0, Most: true})
	}
	return figures, goals
}
