package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// rowLocks are the keys whose locks other transactions have.
type rowLocks struct {
	mu      sync.Mutex
	keys    map[string]bool
	waiting int // swaps that wait for a lock
	most    int // the maximum of waiting
}

func (l *rowLocks) lock(keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.keys[key] = true
	}
}

func (l *rowLocks) unlock(keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		delete(l.keys, key)
	}
}

func (l *rowLocks) has(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys[key]
}

// count changes the number of swaps that wait, and returns its maximum.
func (l *rowLocks) count(change int) (most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting += change
	l.most = max(l.most, l.waiting)
	return l.most
}

// lockedServer is a server on which other transactions have locks. Run waits for them for a while.
type lockedServer struct {
	server
	locks     *rowLocks
	conflicts *atomic.Bool // another process changes each record before it is swapped
}

const lockTimeout = 250 * time.Millisecond

// newLocked returns a way with such a server.
func newLocked() (w way, s lockedServer) {
	s = lockedServer{locks: &rowLocks{keys: make(map[string]bool)}, conflicts: new(atomic.Bool)}
	return way{name: "on a server with locks", open: func(f *fakeStore) storage.Store {
		s.server = server{fakeStore: f}
		return s
	}}, s
}

// withLocks runs a test on such a server, with a timeout of a second.
func withLocks(t *testing.T, test func(b *fixture, s lockedServer)) {
	w, s := newLocked()
	forEachWay(t, []way{w}, engine.Options{Timeout: time.Second, DenialCacheTTL: -1}, func(b *fixture) { test(b, s) })
}

// await waits for the locks of keys, and reports whether they are free.
func (s lockedServer) await(ctx context.Context, keys []string, timeout time.Duration) bool {
	deadline, _ := ctx.Deadline()
	end := time.Now().Add(min(time.Until(deadline)*3/4, timeout))
	for slices.ContainsFunc(keys, s.locks.has) {
		if !time.Now().Before(end) {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

var errLocked = fmt.Errorf("%w: lock timeout", storage.ErrContended)

func (s lockedServer) Run(ctx context.Context, batches ...*driver.Batch) {
	for _, b := range batches {
		if s.await(ctx, b.Keys, lockTimeout) {
			s.server.Run(ctx, b)
			continue
		}
		failed := make(map[int]bool) // indexes of keys
		for i, key := range b.Keys {
			failed[i] = s.locks.has(key)
		}
		fails := func(u driver.Use) bool { return failed[u.Key] }
		for _, r := range b.Requests { // the other keys of a request with a failed key fail too
			for _, u := range r.Uses {
				failed[u.Key] = failed[u.Key] || slices.ContainsFunc(r.Uses, fails)
			}
		}
		rest, places := *b, []int(nil)
		rest.Requests = nil
		for i, r := range b.Requests {
			if !slices.ContainsFunc(r.Uses, fails) {
				rest.Requests, places = append(rest.Requests, r), append(places, i)
			}
		}
		s.server.Run(ctx, &rest)
		b.Err, b.At, b.Found, b.KeyErr = rest.Err, rest.At, rest.Found, make([]error, len(b.Keys))
		for i, place := range places {
			b.Requests[place].Applied = rest.Requests[i].Applied
		}
		for i, key := range b.Keys {
			if failed[i] {
				b.KeyErr[i] = &storage.KeyError{Key: key, Err: errLocked}
			}
		}
	}
}

func (s lockedServer) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	key := swaps[0].Key
	if s.locks.has(key) {
		s.locks.count(1)
		isFree := s.await(ctx, []string{key}, time.Hour)
		s.locks.count(-1)
		if !isFree {
			return nil, false, errLocked
		}
	}
	if s.conflicts.Load() {
		s.put(key, s.state(key))
	}
	return s.server.CompareAndSwap(ctx, swaps...)
}

// callFor makes calls one after the other for a time, and returns how many were decided. No call may fail.
func (b *fixture) callFor(d time.Duration, next func(i int) *call) (decided int) {
	for end := time.Now().Add(d); time.Now().Before(end); decided++ {
		if c := b.decide(next(decided)); c.err != nil {
			b.Errorf("call %d of %v: %v", decided, c.Items[0].Key, c.err)
		}
	}
	return decided
}

// callOthers makes calls of other keys for some time, and returns how many were decided.
func (b *fixture) callOthers() (decided int64) {
	var all sync.WaitGroup
	n := new(atomic.Int64)
	for caller := range 8 {
		all.Go(func() {
			n.Add(int64(b.callFor(2*time.Second, func(i int) *call { return newCall(counter(1<<40), fmt.Sprint(caller, i%50)) })))
		})
	}
	all.Wait()
	return n.Load()
}

// callLocked makes calls, which may wait for locks in vain, until stop is called. stop returns how many failed.
func (b *fixture) callLocked(callers int, next func(caller, i int) *call) (stop func() int64) {
	var stopped atomic.Bool
	var all sync.WaitGroup
	failed := new(atomic.Int64)
	for caller := range callers {
		all.Go(func() {
			for i := 0; !stopped.Load() && !b.Failed(); i++ {
				if c := b.decide(next(caller, i)); c.err != nil {
					assert.ErrorIs(b, c.err, storage.ErrContended)
					assert.ErrorIs(b, c.err, storage.ErrNotApplied)
					failed.Add(1)
				}
			}
		})
	}
	return func() int64 {
		stopped.Store(true)
		all.Wait()
		return failed.Load()
	}
}

// callsOf returns calls of one key for callLocked.
func callsOf(key string) func(int, int) *call {
	return func(int, int) *call { return newCall(counter(1<<40), key) }
}

// The other keys get nearly as many decisions as without the lock, and the circuit breaker stays closed.
func TestLockedKeyDoesNotStopOtherKeys(t *testing.T) {
	for name, next := range map[string]func(caller, i int) *call{
		"one key":  callsOf("locked"),
		"two keys": func(caller, i int) *call { return newCall(counter(1<<40), fmt.Sprint("new", caller, i), "locked") },
	} {
		t.Run(name, func(t *testing.T) {
			withLocks(t, func(b *fixture, s lockedServer) {
				b.store.takes = time.Millisecond
				alone := b.callOthers()
				s.locks.lock("locked")
				stop := b.callLocked(4, next)
				require.Greater(b, float64(b.callOthers()), 0.8*float64(alone))
				s.locks.unlock("locked")
				require.Positive(b, stop())

				b.allowed(b.decide(newCall(counter(1<<40), "locked")))
				b.inOneBatch(newCall(counter(9), "second"), newCall(counter(1<<40), "locked"), newCall(counter(9), "third"))
				require.Contains(b, strings.Join(b.store.tripsSoFar(), "\n"), "locked third", "a key that was released is sent in batches again")
			})
		})
	}
}

// They wait in the queue when a batch finds the lock. Each further batch would wait for it again.
func TestManyCallersOfALockedKeyDelayOthersOnce(t *testing.T) {
	withLocks(t, func(b *fixture, s lockedServer) {
		b.store.takes = time.Millisecond
		s.locks.lock("locked")
		stop := b.callLocked(1000, callsOf("locked"))
		time.Sleep(time.Millisecond)
		require.Less(b, b.allowed(b.decide(newCall(counter(9), "k"))).took, 2*lockTimeout)
		s.locks.unlock("locked")
		stop()
	})
}

// Each probe shows that the lock is still held.
func TestLongLockDelaysOthersOnce(t *testing.T) {
	withLocks(t, func(b *fixture, s lockedServer) {
		b.store.takes = time.Millisecond
		s.locks.lock("locked")
		stop, delayed := b.callLocked(4, callsOf("locked")), 0
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if b.allowed(b.decide(newCall(counter(1<<40), "k"))).took >= lockTimeout/2 {
				delayed++
			}
		}
		require.LessOrEqual(b, delayed, 1)
		s.locks.unlock("locked")
		stop()
	})
}

// The lock of a key is free again. Its callers do not wait for those of locked keys.
func TestReleasedKeyDoesNotWaitForLockedKeys(t *testing.T) {
	for _, locked := range []int{1, 20} {
		withLocks(t, func(b *fixture, s lockedServer) {
			b.store.takes = time.Millisecond
			var keys []string
			for i := range locked {
				keys = append(keys, fmt.Sprint("locked", i))
			}
			s.locks.lock(append(keys, "released")...)
			stop := b.callLocked(4*locked, func(caller, _ int) *call { return newCall(counter(1<<40), keys[caller%locked]) })
			b.startEach("released") // finds the lock
			time.Sleep(2 * time.Second)
			calls := b.startEach(slices.Repeat([]string{"released"}, 50)...)
			time.Sleep(100 * time.Millisecond)
			s.locks.unlock("released")
			unlocked := time.Now()
			b.finish(calls...)
			require.Less(b, time.Since(unlocked), 400*time.Millisecond)
			require.Greater(b, b.callFor(time.Second, func(int) *call { return newCall(counter(1<<40), "released") }), 200)
			require.Equal(b, 1, s.locks.count(0), "locked keys use one connection")
			s.locks.unlock(keys...)
			stop()
		})
	}
}

// A call of two keys waits for its turn to probe the second one. Meanwhile the first one is released.
func TestReleasedKeyDoesNotWaitForTheOtherKeyOfACall(t *testing.T) {
	withLocks(t, func(b *fixture, s lockedServer) {
		s.locks.lock("a", "b")
		stop := b.callLocked(10, callsOf("b"))
		b.start(newCall(counter(9), "a"))
		time.Sleep(1100 * time.Millisecond)
		b.start(newCall(counter(9), "a", "b"))
		time.Sleep(100 * time.Millisecond)
		s.locks.unlock("a")
		require.Less(b, b.allowed(b.decide(newCall(counter(9), "a"))).took, 300*time.Millisecond)
		s.locks.unlock("b")
		stop()
	})
}

// Other processes change the record so often that swaps always conflict. But batches do not.
func TestCallsReturnToBatchesAfterALock(t *testing.T) {
	withLocks(t, func(b *fixture, s lockedServer) {
		b.store.takes = time.Millisecond
		s.conflicts.Store(true)
		s.locks.lock("k")
		calls := b.startEach(slices.Repeat([]string{"k"}, 100)...)
		time.Sleep(400 * time.Millisecond)
		s.locks.unlock("k")
		b.finish(calls...)
		for _, c := range calls {
			require.Less(b, c.took, 500*time.Millisecond)
		}
		require.Len(b, b.store.state("k"), 100)
	})
}

// A denial needs no lock, so it does not show that the lock is free.
func TestDenialLeavesAKeyHeld(t *testing.T) {
	withLocks(t, func(b *fixture, s lockedServer) {
		b.store.put("locked", "x")
		s.locks.lock("locked")
		require.InDelta(b, lockTimeout, b.denied(b.decide(newCall(counter(1), "locked"))).took, float64(time.Millisecond))
		for range 3 {
			require.NoError(b, b.decide(newCallOf(driver.Peek, nil, "locked")).err)
			require.Zero(b, b.denied(b.decide(newCall(counter(1), "locked"))).took)
		}
		s.locks.unlock("locked")
	})
}

// A round trip takes longer than the time that is left for each of many probes.
func TestReleasedKeyIsFoundOnASlowServer(t *testing.T) {
	withLocks(t, func(b *fixture, s lockedServer) {
		b.store.takes = 15 * time.Millisecond
		s.locks.lock("released")
		for i := range 20 {
			key := fmt.Sprint("locked", i)
			s.locks.lock(key)
			b.group.Go(func() {
				for s.locks.has(key) {
					_ = b.decide(newCall(counter(9), key))
				}
			})
			defer s.locks.unlock(key)
		}
		b.start(newCall(counter(9), "released")) // finds the lock
		time.Sleep(3 * time.Second)
		s.locks.unlock("released")
		for range 2 {
			b.decide(newCall(counter(9), "released"))
		}
		b.allowed(b.decide(newCall(counter(9), "released")))
	})
}

// Its turn to probe comes when less time is left than a round trip takes.
func TestCallThatGetsItsTurnTooLateReportsTheLock(t *testing.T) {
	for left := range 30 {
		withLocks(t, func(b *fixture, s lockedServer) {
			s.locks.lock("k")
			require.ErrorIs(b, b.decide(newCall(counter(9), "k")).err, storage.ErrContended)
			b.store.takes = 20 * time.Millisecond
			b.start(newCall(counter(9), "k"))
			ctx, cancel := context.WithTimeout(background, time.Duration(left)*10*time.Millisecond+50*time.Millisecond)
			defer cancel()
			c := b.failed(b.decideFor(ctx, newCall(counter(9), "k")), storage.ErrContended, storage.ErrNotApplied)
			require.ErrorContains(b, c.err, "another transaction held the lock of a key")
			s.locks.unlock("k")
		})
	}
}

// A key was locked, and then the store hangs. It gives no answer to the first one, and the others wait for their turn to probe.
func TestCallersOfALockedKeyReportAnOutage(t *testing.T) {
	withLocks(t, func(b *fixture, s lockedServer) {
		s.locks.lock("k", "other")
		b.failed(b.decide(newCall(counter(9), "k", "other")), storage.ErrContended, storage.ErrNotApplied)
		time.Sleep(time.Millisecond)
		b.hold()
		var calls []*call
		for i := range 6 {
			calls = append(calls, b.start(newCall(counter(9), []string{"k", "other"}[i%2])))
		}
		b.group.Wait()
		for _, c := range calls {
			require.Equal(b, time.Second, b.failed(c, storage.ErrUnavailable, storage.ErrNotApplied).took)
		}
		s.locks.unlock("k", "other")
	})
}

// Callers that wait for each other say nothing about the store, even if none of them gets an answer in the end.
func TestCallersBehindAHeldKeyDoNotOpenTheCircuitBreaker(t *testing.T) {
	forEachWay(t, []way{bySwaps}, engine.Options{Timeout: time.Second, OpenAfter: 500 * time.Millisecond}, func(b *fixture) {
		b.store.before = func([]string) error {
			if b.store.lastKind() == "swap" { // it waits for another transaction
				time.Sleep(980 * time.Millisecond)
				return context.DeadlineExceeded
			}
			return nil
		}
		b.store.takes = 10 * time.Millisecond
		calls := []*call{b.start(newCall(counter(9), "k"))}
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		b.store.takes = 100 * time.Millisecond // the others have only 20 ms for it after their turn has come
		for range 5 {
			calls = append(calls, b.start(newCall(counter(9), "k")))
		}
		b.group.Wait()
		for _, c := range calls {
			require.Error(b, c.err)
			require.GreaterOrEqual(b, c.took, time.Second)
		}
		b.store.before = nil
		b.allowed(b.decide(newCall(counter(9), "k")))
	})
}
