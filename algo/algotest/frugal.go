package algotest

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Frugal holds the subject to one thing more: a step on a key in use, with room
// in dst, does not allocate. The race detector allocates on its own, so there it
// is passed over.
func Frugal(t testing.TB, s Subject) {
	t.Helper()
	if !s.ready(t) {
		return
	}
	s, _ = s.strict()
	policy, period, err := everyday(s)
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
			t.Errorf("algotest: %s: %s is not to allocate, and allocates %v times (error %v)", s.Name, c.what, allocs, err)
		}
	}
}

// everyday is the subject's policy for 100 units in a minute, or in the longest
// period that its burst leaves room for.
func everyday(s Subject) (policy algo.Policy, period time.Duration, err error) {
	for _, period = range []time.Duration{time.Minute, time.Second, time.Millisecond, time.Microsecond, 1} {
		if policy, err = s.New(algo.Per(100, period)); err == nil {
			break
		}
	}
	return policy, period, err
}

// allocations is how often f allocates. testing.AllocsPerRun refuses to run beside
// parallel tests; this takes the least of many short looks, in which what others
// allocate does not always fall.
func allocations(f func()) uint64 {
	f()
	least := uint64(math.MaxUint64)
	for look := 0; look < 500 && least > 0; look++ {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	return least
}
