package sluice_test

// These tests promise that calls of Wait are served in order, and that none waits for ever, whatever other calls do at the same time.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

// waited is a call of WaitN in a random run.
type waited struct {
	began, ended time.Time
	cost         int64
	err          error
}

func (w *waited) String() string {
	const layout = "04:05.000000"
	return fmt.Sprintf("%s to %s, cost %d: %v", w.began.Format(layout), w.ended.Format(layout), w.cost, w.err)
}

// Law: while a call waits, no call that begins later is allowed, whatever their costs. A call waits from its first denial, or from its
// beginning if another one waits before it. It waits until it ends, or asks the store for units that are left for it. The law
// holds if the store does not fail, and if only calls of Wait use the keys. Units may come back at any time.
func TestWaitKeepsTheOrderInRandomRuns(t *testing.T) {
	for name := range orderedStores() {
		for seed := range uint64(200) {
			synctest.Test(t, func(t *testing.T) {
				store, latency := orderedStores()[name], time.Duration(0)
				if s, ok := store.(*distantStore); ok {
					latency = 2 * s.latency // a call can wait for the round trip of another batch
				}
				r := &waitRun{random: rand.New(rand.NewPCG(seed, 0)), store: store}
				calls := r.run(t)
				for _, early := range calls {
					for _, late := range calls {
						if late.err == nil && early.began.Add(latency).Before(late.began) && late.ended.Add(latency).Before(early.ended) {
							t.Fatalf("%s, seed %d: a call (%v) overtakes another one (%v)", name, seed, late, early)
						}
					}
				}
			})
		}
	}
}

// No call waits for ever, whatever fails. Otherwise synctest would report a deadlock.
func TestEachWaitEndsInRandomRunsWithFailures(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := &waitRun{random: rand.New(rand.NewPCG(seed, 1)), store: newDistantStore(3 * time.Millisecond), fails: true}
			for _, w := range r.run(t) {
				require.Less(t, w.ended.Sub(w.began), 10*time.Minute, "seed %d: %v", seed, w)
			}
		})
	}
}

// waitRun is a random run of workers that call WaitN, while units come back early. If fails is set, the store and the policies
// fail now and then, and other calls compete.
type waitRun struct {
	mu     sync.Mutex
	random *rand.Rand
	store  storage.Store
	fails  bool
	calls  []*waited
}

// oneIn reports true for one of n calls, at random.
func (r *waitRun) oneIn(n int64) bool { return r.upTo(n) == 0 }

func (r *waitRun) upTo(n int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.Int64N(n)
}

func (r *waitRun) durationUpTo(d time.Duration) time.Duration { return time.Duration(r.upTo(int64(d))) }

func (r *waitRun) run(t *testing.T) []*waited {
	specs := []string{
		"fixedwindow 5/m", "fixedwindow 7/s", "gcra 5/s", "gcra 20/s burst=3", "movingwindow 6/s", "movingwindow 8/s trailing=whole",
		"tokenbucket 9/s", "all(gcra 5/s; fixedwindow 20/m)",
	}
	rules := rulesOf(specs[r.upTo(int64(len(specs)))])
	if r.oneIn(3) {
		rules = append(rules, sluice.Rule[call]{Name: "all", Spec: "fixedwindow 30/m"})
	}
	var o sluice.Options[call]
	policy, armed := panicsOnce("gcra 9/s")
	if r.fails {
		o.OnFailure = failurePolicies[r.upTo(3)]
		rules = append(rules, sluice.Rule[call]{Name: "plan", Key: byUser, PolicyFor: func(call) (algo.Policy, error) {
			if r.oneIn(5) {
				return mustPolicy("gcra 8/s"), nil
			}
			return policy, nil
		}})
	}
	l, other := newLimiter(t, o, r.store, rules...), newLimiter(t, sluice.Options[call]{}, r.store, rules[0])
	var all sync.WaitGroup
	for range 2 + r.upTo(10) {
		all.Go(func() {
			for range 1 + r.upTo(8) {
				if r.oneIn(2) {
					time.Sleep(r.durationUpTo(2 * time.Second))
				}
				r.wait(l)
			}
		})
	}
	for range r.upTo(4) {
		all.Go(func() {
			time.Sleep(r.durationUpTo(time.Minute))
			if r.oneIn(2) {
				_ = other.Reset(background, ann)
			} else {
				_, _ = other.Refund(background, ann, 1)
			}
		})
	}
	if store, ok := r.store.(*distantStore); ok && r.fails {
		all.Go(func() {
			for range 5 {
				time.Sleep(r.durationUpTo(10 * time.Second))
				_, _ = other.AllowN(background, ann, 2)
				armed.Store(r.oneIn(2))
				store.hangs.Store(true)
				time.Sleep(r.durationUpTo(3 * time.Second))
				store.hangs.Store(false)
			}
		})
	}
	all.Wait()
	return r.calls
}

// wait calls WaitN, sometimes with a deadline, and sometimes it cancels the call.
func (r *waitRun) wait(l *sluice.Limiter[call]) {
	w := &waited{began: time.Now(), cost: 1}
	if r.oneIn(3) {
		w.cost += r.upTo(3)
	}
	ctx, cancel := context.WithCancel(background)
	switch r.upTo(6) {
	case 0:
		ctx, cancel = context.WithTimeout(background, r.durationUpTo(2*time.Minute))
	case 1:
		time.AfterFunc(r.durationUpTo(time.Minute), cancel)
	}
	defer func() {
		if p := recover(); p != nil {
			w.err = fmt.Errorf("panic: %v", p)
		}
		w.ended = time.Now()
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, w)
	}()
	_, w.err = l.WaitN(ctx, ann, w.cost)
}
