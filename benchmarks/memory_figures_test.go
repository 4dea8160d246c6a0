//go:build figures

package benchmarks

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
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

// stepArea measures one step of each algorithm, and x/time/rate, in turns.
func stepArea() (figures []figure.Figure, goals []figure.Goal) {
	const peer = "x/time/rate AllowN"
	for _, s := range steps {
		if !selected("step", s.name) {
			continue
		}
		taken := turns([]runner{{s.name, s.run}, {peer, rateAllowN}}, 1_000_000, 21, processorTime)
		figures = append(figures,
			figure.Figure{Work: s.name, Name: "sluice", Value: median(taken[0]), Unit: "ns", Ours: true},
			figure.Figure{Work: s.name, Name: peer, Value: median(taken[1]), Unit: "ns"})
		goals = append(goals, compare(figure.Goal{Work: s.name, To: peer, What: "ns", Goal: s.goal, Most: true}, taken[0], taken[1]))
	}
	return figures, goals
}

// memoryArea measures limiters in memory.
func memoryArea(t *testing.T) (figures []figure.Figure, goals []figure.Goal) {
	figures, goals = heapFigures(t) // first, while the heap is empty
	for _, w := range memoryWorkloads() {
		if selected("memory", w.name) {
			f, g := w.measure(t)
			figures, goals = append(figures, f...), append(goals, g...)
		}
	}
	allocations, none := allocationFigures(t)
	return append(figures, allocations...), append(goals, none...)
}

// memoryWork is a workload of limiters in memory that take turns.
type memoryWork struct {
	name       string
	keys       int
	goroutines int
	limiters   []memoryLimiter // sluice first
	floors     []memoryLimiter // they have no turn with -only
	goals      []ratio         // the largest ratios of the times
}

// fastestPeer stands for the fastest limiter besides sluice.
const fastestPeer = ""

func memoryWorkloads() []memoryWork {
	return []memoryWork{
		fewKeysWork("1 key", 1, 1),
		fewKeysWork("1 key", 1, 2),
		fewKeysWork("1,000 keys", 1000, 1),
		fewKeysWork("1,000 keys", 1000, 2),
		rulesWork(2, 1.05),
		rulesWork(3, 1),
		manyKeysWork("100,000 keys", 100_000, 1),
		manyKeysWork("100,000 keys", 100_000, 2),
		manyKeysWork("1,000,000 keys", 1_000_000, 1),
		manyKeysWork("1,000,000 keys", 1_000_000, 2),
	}
}

// fewKeysWork compares sluice with the simplest limiters. For one goroutine the map of x/time/rate needs
// no lock.
func fewKeysWork(name string, keys, goroutines int) memoryWork {
	w := manyKeysWork(name, keys, goroutines)
	xRate := rateMap
	if goroutines == 1 {
		xRate = rateMaps(1)
		w.limiters = append(slices.Clone(w.limiters), xRate)
	}
	w.goals = []ratio{{to: sethvargoMemory.name, goal: 1.5}, {to: xRate.name, goal: 1.2}}
	return w
}

// manyKeysWork compares sluice with the fastest peer.
func manyKeysWork(name string, keys, goroutines int) memoryWork {
	least := floorGCRA
	if goroutines > 1 {
		least = floorGCRAShared
	}
	return memoryWork{
		name: fmt.Sprintf("%s, goroutines: %d", name, goroutines), keys: keys, goroutines: goroutines,
		limiters: inMemory, floors: []memoryLimiter{least, mapAndAtomic}, goals: []ratio{{to: fastestPeer, goal: 0.95}},
	}
}

// rulesWork compares one limiter with several rules with a map of limiters for each rule.
func rulesWork(rules int, goal float64) memoryWork {
	peer := rateMaps(rules)
	return memoryWork{
		name: fmt.Sprintf("1,000 keys, rules: %d", rules), keys: 1000, goroutines: 1,
		limiters: []memoryLimiter{sluiceRules(rules), peer}, goals: []ratio{{to: peer.name, goal: goal}},
	}
}

// contenders returns the limiters that have turns. With -only, these are sluice and the limiters that the
// goals name.
func (w memoryWork) contenders() []memoryLimiter {
	if *only == "" {
		return slices.Concat(w.limiters, w.floors)
	}
	return slices.DeleteFunc(slices.Clone(w.limiters), func(p memoryLimiter) bool {
		named := func(g ratio) bool { return g.to == p.name || g.to == fastestPeer }
		return p.name != w.limiters[0].name && !slices.ContainsFunc(w.goals, named)
	})
}

// measure measures one decision of each limiter.
func (w memoryWork) measure(t testing.TB) (figures []figure.Figure, goals []figure.Goal) {
	clock := processorTime
	if w.goroutines > 1 {
		clock = wallTime()
	}
	sequence, from := newSequence(w.keys), 0
	var runners []runner
	for _, p := range w.contenders() {
		allow := p.open(t, highLimit, highLimitPeriod)
		for _, key := range sequence.keys {
			allow(key)
		}
		// throttled/v2 denies some calls if two goroutines use the same key.
		mayDeny := p.name == throttledMemory.name && w.goroutines > 1
		runners = append(runners, runner{p.name, func(n int) {
			if denied := callConcurrently(allow, sequence, w.goroutines, from, n); denied > 0 && !mayDeny {
				t.Fatalf("memory %s: %s denied %d of %d calls", w.name, p.name, denied, n)
			}
			from += 7919
		}})
	}
	taken := turns(runners, 20_000, 101, clock)
	for i, r := range runners {
		figures = append(figures, figure.Figure{Work: w.name, Name: r.name, Value: median(taken[i]), Unit: "ns", Ours: i == 0})
	}
	for _, g := range w.goals {
		peer := w.peer(g, figures)
		goal := figure.Goal{Work: w.name, To: figures[peer].Name, What: "ns", Goal: g.goal, Most: true}
		goals = append(goals, compare(goal, taken[0], taken[peer]))
	}
	return figures, goals
}

// peer returns the index of the figure that a goal compares sluice with.
func (w memoryWork) peer(g ratio, figures []figure.Figure) int {
	if g.to != fastestPeer {
		return slices.IndexFunc(figures, func(f figure.Figure) bool { return f.Name == g.to })
	}
	best := 1
	for i, f := range figures[:len(w.limiters)] {
		if i > 0 && f.Value < figures[best].Value {
			best = i
		}
	}
	return best
}

// heapFigures measures the heap of a million keys, and a garbage collection.
func heapFigures(t *testing.T) (figures []figure.Figure, goals []figure.Goal) {
	for _, length := range []int{16, 200} {
		keys := fmt.Sprintf("1,000,000 keys of %d bytes", length)
		heap, collection := "heap, "+keys, "forced garbage collection, "+keys
		if !selected("memory", heap) && !selected("memory", collection) {
			continue
		}
		limiters := inMemory
		if *only != "" {
			limiters = limiters[:1] // these goals name no other limiter
		}
		var bytes, times []figure.Figure
		for i, p := range limiters {
			var perKey float64
			var took time.Duration
			t.Run(p.name, func(t *testing.T) { // closes the limiter, so that it is not in memory while the next one is measured
				perKey, took = measureHeap(t, p, 1_000_000, length)
			})
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

// callConcurrently makes n calls from that many goroutines and returns how many were denied. Each
// goroutine starts at its own position in the sequence.
func callConcurrently(allow func(string) bool, t *sequence, goroutines, from, n int) (denied int) {
	if goroutines == 1 {
		return callInOrder(allow, t, from, n)
	}
	var group sync.WaitGroup
	var all atomic.Int64
	for g := range goroutines {
		group.Go(func() { all.Add(int64(callInOrder(allow, t, from+g*len(t.order)/goroutines, n/goroutines))) })
	}
	group.Wait()
	return int(all.Load())
}

func callInOrder(allow func(string) bool, t *sequence, from, n int) (denied int) {
	for i := from; i < from+n; i++ {
		if !allow(t.key(i)) {
			denied++
		}
	}
	return denied
}

// measureHeap fills a limiter with keys of that length.
func measureHeap(t testing.TB, s memoryLimiter, keys, length int) (bytesPerKey float64, collection time.Duration) {
	before := heapInUse()
	allow := s.open(t, highLimit, highLimitPeriod)
	for i := range keys {
		allow(fmt.Sprintf("%0*s", length, keyOf(i)))
	}
	bytesPerKey = float64(heapInUse()-before) / float64(keys)
	var collections []time.Duration
	for all := time.Duration(0); len(collections) < 5 || all < 100*time.Millisecond; {
		began := time.Now()
		runtime.GC()
		took := time.Since(began)
		collections, all = append(collections, took), all+took
	}
	runtime.KeepAlive(allow)
	slices.Sort(collections)
	return bytesPerKey, collections[len(collections)/2]
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
