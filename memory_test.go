package sluice_test

// These tests promise what only decisions in memory have: no allocations, and results that belong
// to the caller. A repeated denial is decided in memory too. A process does not keep the memory that a flood of keys took.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// requireAllocations checks that one call of f allocates at most this many times.
func requireAllocations(t *testing.T, most float64, f func()) {
	t.Helper()
	require.LessOrEqual(t, testing.AllocsPerRun(1000, f), most)
}

func TestAllocationsInMemory(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("with coverage counters Allow and Hold are too large to be inlined")
	}
	allow := func(l *sluice.Limiter[call]) {
		if _, err := l.Allow(background, ann); err != nil {
			panic(err)
		}
	}
	hold := func(l *sluice.Limiter[call]) {
		_, _, release, err := l.Hold(background, ann)
		if err != nil {
			panic(err)
		}
		release()
	}
	plans := []algo.Policy{
		mustPolicy("gcra 100000/s"), mustPolicy("tokenbucket 100000/s"), mustPolicy("all(gcra 100000/s; fixedwindow 1000000000/d)"),
	}
	n := 0
	plan := sluice.Rule[call]{Name: "plan", Key: byUser, PolicyFor: func(call) (algo.Policy, error) { n++; return plans[n%len(plans)], nil }}
	long := rulesOf("gcra 1000/s")
	long[0].Key = func(call) string { return longKey }
	for _, c := range []struct {
		most  float64
		call  func(*sluice.Limiter[call])
		rules []sluice.Rule[call]
		store storage.Store
	}{
		{0, allow, rulesOf("gcra 1000/s"), nil},
		{0, allow, rulesOf("gcra 1/h"), nil},
		{0, allow, rulesOf("gcra 1000/s", "tokenbucket 2000/m", "fixedwindow 100000/h"), nil},
		{0, allow, long, nil},
		{0, allow, []sluice.Rule[call]{plan}, nil},
		{0, hold, rulesOf("gcra 1000/s"), nil},
		{1, hold, []sluice.Rule[call]{plan}, nil},
		{1, reserveAndRelease, rulesOf("inflight 5 ttl=8760h"), nil},
		{1, allow, rulesOf("gcra 1/h"), swapOnly{new(memory.Store)}}, // denials from the cache
	} {
		l := newLimiter(t, sluice.Options[call]{}, c.store, c.rules...)
		requireAllocations(t, c.most, func() { c.call(l) })
	}
}

var longKey = strings.Repeat("ann", 100)

func reserveAndRelease(l *sluice.Limiter[call]) {
	r, _, err := l.Reserve(background, ann, 1)
	if err != nil {
		panic(err)
	}
	if err := r.Release(background); err != nil {
		panic(err)
	}
}

// The results of a decision that escapes are on the heap, with room for three rules.
func TestDecisionIsSmall(t *testing.T) {
	require.LessOrEqual(t, 3*int(unsafe.Sizeof(sluice.RuleResult{})), 480)
	require.LessOrEqual(t, int(unsafe.Sizeof(sluice.Decision{})), 128)
}

func TestObservedDecisionAllocatesItsResults(t *testing.T) {
	var last sluice.Event
	l := newLimiter(t, sluice.Options[call]{Observer: func(_ context.Context, e sluice.Event) { last = e }}, nil, rulesOf("gcra 1000/s", "gcra 2000/m")...)
	requireAllocations(t, 4, func() {
		if d, err := l.Allow(background, ann); err != nil || len(d.Results) != 2 {
			panic(err)
		}
	})
	require.Len(t, last.Decision.Results, 2)
	event, results := last, slices.Clone(last.Decision.Results)
	must(t)(l.Allow(background, call{user: "bob"}))
	require.Equal(t, results, event.Decision.Results, "the observer may keep the event")
}

func TestLaterDecisionsDoNotChangeResults(t *testing.T) {
	l := newLimiter(t, sluice.Options[call]{}, nil, rulesOf("gcra 10/h", "gcra 20/h")...)
	var decisions []sluice.Decision
	for range 10 {
		decisions = append(decisions, must(t)(l.Allow(background, ann)))
	}
	for i, d := range decisions {
		require.EqualValues(t, 9-i, d.Results[0].Remaining)
		require.EqualValues(t, 19-i, d.Results[1].Remaining)
	}
}

// heapSize returns the memory that is in use.
func heapSize() int64 {
	runtime.GC()
	runtime.GC() // frees what pools kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// When the flood ends, the process has a call left that it bought ahead for each key.
func TestAFloodUnderPrepayLeavesNoPurses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := sluice.Options[call]{Prepay: sluice.Prepay{Calls: 50, For: 50 * time.Second}}
		l := newLimiter(t, o, transactor{new(memory.Store)}, rulesOf("gcra 100000/s")...)
		for range 4 { // 1, 2 and 4 calls were bought
			must(t)(l.Allow(background, ann))
		}
		before := heapSize()
		for i := range 20_000 {
			for range 2 { // the second one buys two calls
				must(t)(l.Allow(background, call{user: fmt.Sprint(i)}))
			}
		}
		require.True(t, must(t)(l.Allow(background, ann)).Prepaid, "calls that are left are kept")
		time.Sleep(time.Minute)
		must(t)(l.Allow(background, ann))
		require.Less(t, heapSize()-before, int64(3<<20), "the records of the store take less")
		runtime.KeepAlive(l)
	})
}

func TestWaitLeavesNoQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, sluice.Options[call]{}, nil, rulesOf("gcra 1000/s burst=1")...)
		must(t)(l.Allow(background, ann))
		before := heapSize()
		for i := range 20_000 {
			for range 2 { // the second one waits
				must(t)(l.Wait(background, call{user: fmt.Sprint(i)}))
			}
		}
		require.Less(t, heapSize()-before, int64(3<<20), "the records of the store take less")
		runtime.KeepAlive(l)
	})
}

func TestAnOutageLeavesNoRecordsInTheLocalLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		l := newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailLocal}, store, rulesOf("gcra 10/s")...)
		must(t)(l.Allow(background, ann))
		before := heapSize()
		store.err = errNoTable
		for i := range 50_000 {
			must(t)(l.Allow(background, call{user: fmt.Sprint(i)}))
		}
		require.Greater(t, heapSize()-before, int64(3<<20))
		store.err = nil
		time.Sleep(time.Minute)
		for range 6_000 {
			must(t)(l.Allow(background, ann))
			time.Sleep(time.Second / 10)
		}
		require.Less(t, heapSize()-before, int64(1<<20))
		runtime.KeepAlive(l)
	})
}

// These tests promise that nobody gets around a limit by creating many keys. A store with
// MaxKeys must evict keys. The tests use a limiter, because only a limiter knows the priority
// of a record.

// floodSpecs have all algorithms, and stacks. One call uses at most a fifth of each limit, except
// in the short parts of two stacks: one call uses these up, and they are full again soon.
var floodSpecs = []string{
	"gcra 5/h", "gcra 100/m burst=20",
	"tokenbucket 5/h", "tokenbucket 5/h refill=interval", "tokenbucket 6/m burst=30 refill=interval",
	"fixedwindow 5/h", "fixedwindow 5/h align=clock", "fixedwindow 7/m",
	"movingwindow 5/h", "movingwindow 60/h slots=12", "movingwindow 6/m slots=6 trailing=whole",
	"all(gcra 10/s; fixedwindow 100/h)", "all(gcra 1/s; fixedwindow 100/h)",
	"all(gcra 5/s burst=1; movingwindow 1000/h slots=12 trailing=whole)",
	"all(fixedwindow 5/m align=clock; movingwindow 20/h slots=4)",
	"penalty(all(gcra 5/s burst=1; movingwindow 1000/h slots=12 trailing=whole); for=1s)",
}

// floodRule is a rule by name.
func floodRule(policy algo.Policy) sluice.Rule[string] {
	return sluice.Rule[string]{Name: "customer", Key: func(name string) string { return name }, Policy: policy}
}

// bounded returns the stores in memory that hold at most maxKeys keys of a rule: without the engine, and with it.
func bounded(maxKeys int) []storage.Store {
	return []storage.Store{&memory.Store{MaxKeys: maxKeys}, transactor{&memory.Store{MaxKeys: maxKeys}}}
}

// A rule with one key admits at most its bound, however many keys another rule has.
func TestFloodOfKeysDoesNotLiftASharedLimit(t *testing.T) {
	const maxKeys, keys = 10, 400
	for _, spec := range append([]string{"gcra 2/s", "gcra 1000/s burst=10"}, floodSpecs...) {
		for _, store := range bounded(maxKeys) {
			clock, shared := newClock(), mustPolicy(spec)
			l := newLimiter(t, sluice.Options[string]{Clock: clock.Now, DenialCacheTTL: -1, Timeout: time.Minute}, store,
				floodRule(mustPolicy("fixedwindow 5/h")), sluice.Rule[string]{Name: "everyone", Policy: shared})
			began, admitted := clock.Now(), int64(0)
			for i := range keys {
				if i < maxKeys || i%100 == 0 {
					clock.advance(time.Second)
				}
				if must(t)(l.Allow(background, fmt.Sprint("customer ", i))).Allowed {
					admitted++
				}
				require.LessOrEqual(t, admitted, shared.Bound(clock.Now().Sub(began)+1), "%s: calls of %d customers", spec, i+1)
			}
		}
	}
}

// A key that has used up its limit is denied until its RetryAfter is over, while 10 times maxKeys random keys make one call each.
func TestFloodOfKeysDoesNotResetExhaustedKeys(t *testing.T) {
	const maxKeys, victims = 64, 8
	for _, spec := range floodSpecs {
		for seed := range uint64(2) {
			for _, store := range bounded(maxKeys) {
				random, clock, policy := rand.New(rand.NewPCG(seed, 0)), newClock(), mustPolicy(spec)
				l := newLimiter(t, sluice.Options[string]{Clock: clock.Now, DenialCacheTTL: -1, Timeout: time.Minute}, store, floodRule(policy))
				window := longestPeriod(policy)
				var until [victims]time.Time
				for i := range until {
					until[i] = exhaust(t, l, clock, fmt.Sprint("victim ", i), window/100)
					clock.advance(time.Duration(random.Int64N(int64(window / 50))))
				}
				for i := range 10 * maxKeys {
					clock.advance(time.Duration(random.Int64N(int64(window / 300)))) // more than a window in all
					must(t)(l.Allow(background, fmt.Sprint("random ", random.Uint64())))
					if v := random.IntN(victims); clock.Now().Before(until[v]) {
						d := must(t)(l.Allow(background, fmt.Sprint("victim ", v)))
						require.False(t, d.Allowed, "%s: %v before its RetryAfter, after %d random keys", spec, until[v].Sub(clock.Now()), i+1)
					}
				}
			}
		}
	}
}

// exhaust uses up the limit of a key, and returns the end of its RetryAfter. In a stack it uses up
// the part whose wait is at least least.
func exhaust(t *testing.T, l *sluice.Limiter[string], clock *fakeClock, key string, least time.Duration) (until time.Time) {
	for range 10_000 {
		switch d := must(t)(l.Allow(background, key)); {
		case !d.Allowed && d.RetryAfter >= least:
			return clock.Now().Add(d.RetryAfter)
		case !d.Allowed:
			clock.advance(d.RetryAfter)
		}
	}
	t.Fatalf("%s is never denied for %v", key, least)
	return until
}

// longestPeriod returns the period of a policy, or of the slowest part of a stack.
func longestPeriod(p algo.Policy) (longest time.Duration) {
	stack := compose.StackOf(p)
	if stack == nil {
		return p.Limit().Period
	}
	for _, part := range stack.Parts() {
		longest = max(longest, part.Limit().Period)
	}
	return longest
}

// A refund during a penalty does not make its record worth evicting.
func TestFloodOfKeysEndsNoPenalty(t *testing.T) {
	l := newLimiter(t, sluice.Options[call]{}, &memory.Store{MaxKeys: 2000}, rulesOf("penalty(fixedwindow 20/15min; for=1h)")...)
	must(t)(l.AllowN(background, ann, 20))
	require.False(t, must(t)(l.Allow(background, ann)).Allowed)
	must(t)(l.Refund(background, ann, 18))
	for i := range 20_000 {
		must(t)(l.Allow(background, call{user: fmt.Sprint("flood ", i)}))
	}
	require.False(t, must(t)(l.Allow(background, ann)).Allowed)
}
