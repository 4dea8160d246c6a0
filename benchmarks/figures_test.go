package benchmarks

import (
	"flag"
	"slices"
	"syscall"
	"testing"
	"time"
)

var figures = flag.Bool("figures", false, "measure the goals, each beside its peer")

var largest = flag.Int("largest", 1_000_000, "the most keys to measure figures with")

// goal is how much of what a peer takes a decision of ours may take.
type goal struct {
	keys, goroutines int
	peer             subject
	ratio            float64
}

var memoryGoals = []goal{
	{1, 1, sethvargoMemory, 0.8},
	{1000, 1, sethvargoMemory, 0.9},
	{100_000, 1, throttledMemory, 0.6},
	{1_000_000, 1, sethvargoMemory, 0.6},
	{1, 2, sethvargoMemory, 0.85},
	{1000, 2, sethvargoMemory, 0.6},
	{100_000, 2, sethvargoMemory, 0.7},
	{1_000_000, 2, sethvargoMemory, 0.7},
}

// TestMemoryFigures measures every goal, and fails where one is missed. Ours and
// the peer take turns of a few milliseconds, so that whatever else the machine
// does falls on both, and the median turn counts.
func TestMemoryFigures(t *testing.T) {
	if !*figures {
		t.Skip("figures are measured with -figures")
	}
	for _, g := range memoryGoals {
		if g.keys > *largest {
			continue
		}
		traffic := newTraffic(g.keys)
		ours, peer := sluiceMemory.open(t, plenty, plentyPeriod), g.peer.open(t, plenty, plentyPeriod)
		fill(ours, traffic)
		fill(peer, traffic)
		a, b := turns(ours, peer, traffic, g.goroutines)
		report(t, a/b <= g.ratio, "%9d keys, %d goroutines: %6.1f ns, %s %6.1f ns; ratio %.2f, goal %.2f",
			g.keys, g.goroutines, a, g.peer.name, b, a/b, g.ratio)
	}
}

func report(t *testing.T, met bool, format string, args ...any) {
	t.Helper()
	if !met {
		t.Errorf("MISSED "+format, args...)
		return
	}
	t.Logf("met    "+format, args...)
}

// TestMemoryRoomFigures measures what a million keys take, the collections that
// they cost, and what decisions allocate.
func TestMemoryRoomFigures(t *testing.T) {
	if !*figures {
		t.Skip("figures are measured with -figures")
	}
	for _, length := range []int{16, 200} {
		perKey, collection := weigh(t, sluiceMemory, 1_000_000, length)
		report(t, perKey <= 64, "heap per key of %d bytes: %.1f B, goal 64", length, perKey)
		report(t, collection <= 2*time.Millisecond, "forced collection: %v, goal 2ms", collection)
	}
	for _, rules := range []int{1, 3} {
		allow := openSluiceRules(t, plenty, plentyPeriod, rules)
		allocations := testing.AllocsPerRun(10_000, func() { allow("0123456789abcdef") })
		report(t, allocations == 0, "allocations by %d rules: %v, goal 0", rules, allocations)
	}
}

// turns measures two limiters in turn, in ns per call: the median of each.
func turns(a, b func(string) bool, traffic *traffic, goroutines int) (nsA, nsB float64) {
	const calls, times = 20_000, 101
	var as, bs []float64
	for i := range times {
		as = append(as, turn(a, traffic, goroutines, i*calls, calls))
		bs = append(bs, turn(b, traffic, goroutines, i*calls, calls))
	}
	slices.Sort(as)
	slices.Sort(bs)
	return as[times/2], bs[times/2]
}

// turn is one turn, in ns per call: of processor time for one goroutine, because
// a shared machine may be doing something else for most of it; of time for more.
func turn(allow func(string) bool, t *traffic, goroutines, from, calls int) (nsPerCall float64) {
	began, worked := time.Now(), processorTime()
	drive(allow, t, goroutines, from, calls)
	took := time.Since(began)
	if goroutines == 1 {
		took = processorTime() - worked
	}
	return float64(took) / float64(calls)
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
