package benchmarks

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// callEachKey makes one call for every key.
func callEachKey(allow func(string) bool, t *sequence) {
	for _, key := range t.keys {
		allow(key)
	}
}

// callConcurrently makes n calls from that many goroutines and returns how many were denied. Each
// goroutine starts at its own position in the sequence.
func callConcurrently(allow func(string) bool, t *sequence, goroutines, from, n int) (denied int) {
	if goroutines == 1 {
		return callInOrder(allow, t, from, n)
	}
	var group sync.WaitGroup
	denials := make([]int, goroutines)
	for g := range goroutines {
		group.Go(func() { denials[g] = callInOrder(allow, t, from+g*len(t.order)/goroutines, n/goroutines) })
	}
	group.Wait()
	for _, d := range denials {
		denied += d
	}
	return denied
}

func callInOrder(allow func(string) bool, t *sequence, from, n int) (denied int) {
	for i := from; i < from+n; i++ {
		if !allow(t.key(i)) {
			denied++
		}
	}
	return denied
}

// BenchmarkMemory measures one decision. All calls should be allowed, but throttled/v2 denies some
// if two goroutines use the same key.
func BenchmarkMemory(b *testing.B) {
	for _, keys := range []int{1, 1000, 100_000, 1_000_000} {
		sequence := sync.OnceValue(func() *sequence { return newSequence(keys) })
		for _, s := range append(inMemory, floors...) {
			filled := sync.OnceValue(func() func(string) bool {
				allow := s.open(b, highLimit, highLimitPeriod)
				callEachKey(allow, sequence())
				return allow
			})
			for _, goroutines := range []int{1, 2} {
				b.Run(fmt.Sprintf("keys=%d/goroutines=%d/%s", keys, goroutines, s.name), func(b *testing.B) {
					allow := filled()
					b.ReportAllocs()
					b.ResetTimer()
					denied := callConcurrently(allow, sequence(), goroutines, 0, b.N)
					b.ReportMetric(float64(denied)/float64(b.N), "denied/op")
				})
			}
		}
	}
}

// BenchmarkMemoryRules measures a limiter with several rules, and a map of x/time/rate for each rule.
func BenchmarkMemoryRules(b *testing.B) {
	sequence := newSequence(1000)
	for rules := 1; rules <= 3; rules++ {
		for _, s := range []memoryLimiter{sluiceRules(rules), rateMaps(rules)} {
			b.Run(fmt.Sprintf("rules=%d/%s", rules, s.name), func(b *testing.B) {
				allow := s.open(b, highLimit, highLimitPeriod)
				callEachKey(allow, sequence)
				b.ReportAllocs()
				b.ResetTimer()
				if denied := callInOrder(allow, sequence, 0, b.N); denied > 0 {
					b.Fatalf("denied %d of %d calls", denied, b.N)
				}
			})
		}
	}
}

// BenchmarkMemoryHeap measures the heap of a million keys and the time of one forced garbage
// collection, the median of at least five. Strings of keys count for the limiter that keeps them.
func BenchmarkMemoryHeap(b *testing.B) {
	const keys = 1_000_000
	for _, s := range inMemory {
		for _, length := range []int{16, 200} {
			b.Run(fmt.Sprintf("length=%d/%s", length, s.name), func(b *testing.B) {
				for range b.N {
					bytes, pause := measureHeap(b, s, keys, length)
					b.ReportMetric(bytes, "B/key")
					b.ReportMetric(float64(pause)/1e6, "ms/GC")
				}
			})
		}
	}
}

// scope closes a limiter before the end of the test, so that it is not in memory while the next one is
// measured.
type scope struct {
	testing.TB
	cleanups []func()
}

func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) end() {
	for _, f := range s.cleanups {
		f()
	}
}

// measureHeap fills a limiter with keys of that length.
func measureHeap(t testing.TB, s memoryLimiter, keys, length int) (bytesPerKey float64, collection time.Duration) {
	before, opened := heapInUse(), scope{TB: t}
	defer opened.end()
	allow := s.open(&opened, highLimit, highLimitPeriod)
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
