package benchmarks

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// fill asks once for every key, from one goroutine.
func fill(allow func(string) bool, t *traffic) {
	for _, key := range t.keys {
		allow(key)
	}
}

// drive makes n calls from that many goroutines, each from a place of its own in
// the order on, and says how many were denied.
func drive(allow func(string) bool, t *traffic, goroutines, from, n int) (denied int) {
	if goroutines == 1 {
		return walk(allow, t, from, n)
	}
	var group sync.WaitGroup
	denials := make([]int, goroutines)
	for g := range goroutines {
		group.Go(func() { denials[g] = walk(allow, t, from+g*len(t.order)/goroutines, n/goroutines) })
	}
	group.Wait()
	for _, d := range denials {
		denied += d
	}
	return denied
}

func walk(allow func(string) bool, t *traffic, from, n int) (denied int) {
	for i := from; i < from+n; i++ {
		if !allow(t.key(i)) {
			denied++
		}
	}
	return denied
}

// BenchmarkMemory is one decision, beside peers and floors. Nobody should deny
// any: throttled/v2 does when two goroutines meet on a key too often.
func BenchmarkMemory(b *testing.B) {
	for _, keys := range []int{1, 1000, 100_000, 1_000_000} {
		traffic := sync.OnceValue(func() *traffic { return newTraffic(keys) })
		for _, s := range append(inMemory, floors...) {
			filled := sync.OnceValue(func() func(string) bool {
				allow := s.open(b, plenty, plentyPeriod)
				fill(allow, traffic())
				return allow
			})
			for _, goroutines := range []int{1, 2} {
				b.Run(fmt.Sprintf("keys=%d/goroutines=%d/%s", keys, goroutines, s.name), func(b *testing.B) {
					allow := filled()
					b.ReportAllocs()
					b.ResetTimer()
					denied := drive(allow, traffic(), goroutines, 0, b.N)
					b.ReportMetric(float64(denied)/float64(b.N), "denied/op")
				})
			}
		}
	}
}

// BenchmarkMemoryRules is one decision of a limiter with several rules, which no
// peer offers.
func BenchmarkMemoryRules(b *testing.B) {
	traffic := newTraffic(1000)
	for _, rules := range []int{1, 3} {
		b.Run(fmt.Sprintf("rules=%d", rules), func(b *testing.B) {
			allow := openSluiceRules(b, plenty, plentyPeriod, rules)
			fill(allow, traffic)
			b.ReportAllocs()
			b.ResetTimer()
			walk(allow, traffic, 0, b.N)
		})
	}
}

// BenchmarkMemoryHeap is what a million keys take, and how long one forced
// collection takes with them, the median of five or more. The strings of the keys count
// to whoever keeps them.
func BenchmarkMemoryHeap(b *testing.B) {
	const keys = 1_000_000
	for _, s := range inMemory {
		for _, length := range []int{16, 200} {
			b.Run(fmt.Sprintf("length=%d/%s", length, s.name), func(b *testing.B) {
				for range b.N {
					bytes, pause := weigh(b, s, keys, length)
					b.ReportMetric(bytes, "B/key")
					b.ReportMetric(float64(pause)/1e6, "ms/GC")
				}
			})
		}
	}
}

// weigh fills a limiter with keys of that length.
func weigh(t testing.TB, s subject, keys, length int) (bytesPerKey float64, collection time.Duration) {
	before := heapInUse()
	allow := s.open(t, plenty, plentyPeriod)
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
