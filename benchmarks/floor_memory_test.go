package benchmarks

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
)

// leastOfGCRA is the step and what it cannot do without. It keeps the states as they
// are, under one lock, in a map that nothing bounds; the least that a decision in memory
// costs with such a step.
var leastOfGCRA = subject{"floor: map, lock, clock, gcra.Step", func(_ testing.TB, count int64, period time.Duration) func(string) bool {
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

// leastOfGCRAShared is the same for several goroutines: each key has a lock of its own,
// in a map that nobody writes while it is read, see fill.
var leastOfGCRAShared = subject{"floor: map, lock a key, clock, gcra.Step", func(_ testing.TB, count int64, period time.Duration) func(string) bool {
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

// mapAndAtomic counts under a key, in a map that nobody writes while it is read.
var mapAndAtomic = subject{"floor: map and atomic", func(testing.TB, int64, time.Duration) func(string) bool {
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

var (
	aCall = subject{"floor: a call", func(testing.TB, int64, time.Duration) func(string) bool {
		return func(key string) bool { return len(key) > 0 }
	}}
	wallClock = subject{"floor: wall clock", func(testing.TB, int64, time.Duration) func(string) bool {
		return func(string) bool { return time.Now().Unix() > 0 }
	}}
	monotonicClock = subject{"floor: monotonic clock", func(testing.TB, int64, time.Duration) func(string) bool {
		began := time.Now()
		return func(string) bool { return time.Since(began) >= 0 }
	}}
)

// floors are no limiters: they are the least that a part of a decision costs.
var floors = []subject{leastOfGCRA, leastOfGCRAShared, mapAndAtomic, aCall, wallClock, monotonicClock}
