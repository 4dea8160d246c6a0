package benchmarks

import (
	"sync/atomic"
	"testing"
	"time"
)

// floors are no limiters: they are the least that a part of a decision costs.
var floors = []subject{
	{"floor: a call", func(testing.TB, int64, time.Duration) func(string) bool {
		return func(key string) bool { return len(key) > 0 }
	}},
	{"floor: wall clock", func(testing.TB, int64, time.Duration) func(string) bool {
		return func(string) bool { return time.Now().Unix() > 0 }
	}},
	{"floor: monotonic clock", func(testing.TB, int64, time.Duration) func(string) bool {
		began := time.Now()
		return func(string) bool { return time.Since(began) >= 0 }
	}},
	{"floor: map and atomic", func(testing.TB, int64, time.Duration) func(string) bool {
		counts := make(map[string]*atomic.Int64) // nobody writes it while it is read: see fill
		return func(key string) bool {
			n, ok := counts[key]
			if !ok {
				n = new(atomic.Int64)
				counts[key] = n
			}
			return n.Add(1) > 0
		}
	}},
}
