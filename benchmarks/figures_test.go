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

// TestMemoryFigures prints a row for every goal; it fails none, since a figure is no
// law. Ours and the peer take turns of a few milliseconds, so that whatever else
// the machine does falls on both, and the median turn counts.
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
		t.Logf("%9d keys, %d goroutines: %6.1f ns, %s %6.1f ns; ratio %.2f, goal %.2f %s",
			g.keys, g.goroutines, a, g.peer.name, b, a/b, g.ratio, met(a/b <= g.ratio))
	}
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "MISSED"
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
