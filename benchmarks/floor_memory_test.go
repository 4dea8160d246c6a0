package benchmarks

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
)

// floorGCRA is the least work around a step in memory: decoded states in a map without a size
// limit, under one lock.
var floorGCRA = memoryLimiter{"floor: map, lock, clock, gcra.Step", func(_ testing.TB, count int64, period time.Duration) func(string) bool {
	o := gcra.Options{Limit: algo.Per(count, period)}
	states, began := make(map[string]*gcra.State), time.Now()
	var lock sync.Mutex
	return func(key string) bool {
		now := time.Unix(0, int64(time.Since(began)))
		lock.Lock()
		defer lock.Unlock()
		s, ok := states[key]
		if !ok {
			s = new(gcra.State)
			states[key] = s
		}
		var r algo.Result
		*s, r = gcra.Step(*s, now, o)
		return r.Allowed
	}
}}

// floorGCRAShared is the same for several goroutines. Each key has its own lock. The map is not
// written during the measurement, because each key is called once before.
var floorGCRAShared = memoryLimiter{"floor: map, a lock for each key, clock, gcra.Step", func(_ testing.TB, count int64, period time.Duration) func(string) bool {
	type entry struct {
		sync.Mutex
		state gcra.State
	}
	o := gcra.Options{Limit: algo.Per(count, period)}
	entries, began := make(map[string]*entry), time.Now()
	return func(key string) bool {
		now := time.Unix(0, int64(time.Since(began)))
		e, ok := entries[key]
		if !ok {
			e = new(entry)
			entries[key] = e
		}
		e.Lock()
		defer e.Unlock()
		var r algo.Result
		e.state, r = gcra.Step(e.state, now, o)
		return r.Allowed
	}
}}

// mapAndAtomic counts calls in a map that is not written during the measurement.
var mapAndAtomic = memoryLimiter{"floor: map and atomic", func(testing.TB, int64, time.Duration) func(string) bool {
	counts := make(map[string]*atomic.Int64)
	return func(key string) bool {
		n, ok := counts[key]
		if !ok {
			n = new(atomic.Int64)
			counts[key] = n
		}
		return n.Add(1) > 0
	}
}}
