package algotest

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// noAllocations does nothing under the race detector, which allocates itself.
func noAllocations(t testing.TB, s Subject) {
	t.Helper()
	policy, period, err := simplePolicy(s)
	if err != nil {
		t.Errorf("algotest: %s refuses 100 units in any period: %v", s.Name, err)
		return
	}
	if s.Allocates || raceEnabled {
		return
	}
	now := epoch
	state, r, _ := policy.Step(nil, nil, now, 1)
	state, _, _ = policy.Step(nil, state, now.Add(period/10), 1)
	full, _, _ := policy.Charge(nil, state, now.Add(period/9), r.Limit)
	dst := make([]byte, 0, 4096)
	for _, c := range []struct {
		what  string
		state []byte
	}{{"the first step on a key", nil}, {"a step that is allowed", state}, {"a step that is denied", full}} {
		allocs := allocations(func() {
			_, _, err = policy.Step(dst, c.state, now.Add(period/8), 1)
		})
		if allocs > 0 || err != nil {
			t.Errorf("algotest: %s: %s must not allocate, but allocates %v times (error %v)", s.Name, c.what, allocs, err)
		}
	}
}

// simplePolicy returns the subject's policy for 100 units in a minute, or in the longest
// period that its burst allows.
func simplePolicy(s Subject) (policy algo.Policy, period time.Duration, err error) {
	for _, period = range []time.Duration{time.Minute, time.Second, time.Millisecond, time.Microsecond, 1} {
		if policy, err = s.New(algo.Per(100, period)); err == nil {
			break
		}
	}
	return policy, period, err
}

// allocations returns how often f allocates. Unlike testing.AllocsPerRun it works in parallel
// tests: it takes the minimum of many short measurements, and other goroutines do not allocate
// in all of them.
func allocations(f func()) uint64 {
	f()
	least := uint64(math.MaxUint64)
	for i := 0; i < 500 && least > 0; i++ {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	return least
}
