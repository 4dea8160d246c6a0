package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// states are the states of one key under both rules.
type states [rules]string

// sequential is the model of a limiter with two rules: both steps pay, or none. The results of
// admissions must be equal. A denial may be based on older states and have a shorter RetryAfter.
func sequential(t *testing.T, workload int) porcupine.Model {
	policies, err := workloads[workload].policies()
	require.NoError(t, err)
	return porcupine.Model{
		Init: func() any { return states{} },
		Step: func(from, _, output any) (bool, any) {
			e, next, allowed, same := output.(*entry), states{}, true, true
			for r, p := range policies {
				s, result, err := p.Step(nil, []byte(from.(states)[r]), e.time(), e.Cost)
				next[r] = string(s)
				allowed = allowed && err == nil && result.Allowed
				same = same && result == e.Steps[r].Result
			}
			if !allowed {
				return e.Outcome == denied, from
			}
			return e.Outcome == admitted && same, next
		},
	}
}

// burst is what these workloads allow at one time.
const burst = 12

// history records the calls of six callers for one key, two on each store, like three processes.
// Sometimes a caller advances the clock by leap.
func history(t *testing.T, shared sharedMemory, stores []storage.Store, workload int, leap int64) []porcupine.Operation {
	namespace := fmt.Sprintf("%s %x", t.Name(), rand.Uint64())
	var mu sync.Mutex
	var operations []porcupine.Operation
	var callers sync.WaitGroup
	for i, store := range stores {
		limiter, err := workloads[workload].limiter(sluice.Options[*recordedCall]{Namespace: namespace, Clock: shared.now, Timeout: longTimeout}, store)
		require.NoError(t, err)
		for k := range 2 {
			callers.Go(func() {
				for n := range 8 {
					a := &recordedCall{entry: entry{Member: i, Caller: k, Number: n, Key: "0", Cost: int64(1 + (i+k+n)%3), Call: shared.read()}}
					if n == 0 && k == 0 {
						a.Cost = burst // the first call takes much
					}
					d, err := limiter.Allow(context.Background(), a)
					f, _ := outcomeOf(d, err)
					e := a.result(d, f, err, shared.read())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					operations = append(operations, porcupine.Operation{ClientId: 2*i + k, Call: e.Call, Output: e, Return: e.Return})
					mu.Unlock()
					if leap > 0 && (i+k+n)%4 == 0 {
						shared.words[0].Add(leap)
					}
				}
			})
		}
	}
	callers.Wait()
	return operations
}

func legal(t *testing.T, workload int, operations []porcupine.Operation) bool {
	t.Helper()
	result := porcupine.CheckOperationsTimeout(sequential(t, workload), operations, longTimeout)
	require.NotEqual(t, porcupine.Unknown, result)
	return result == porcupine.Ok
}

func newSharedMemory(t *testing.T) sharedMemory {
	shared, err := openSharedMemory(filepath.Join(t.TempDir(), "page"))
	require.NoError(t, err)
	return shared
}

func TestHistoriesAreLinearizableOnEachStore(t *testing.T) {
	forEachStore(t, func(t *testing.T, open func() storage.Store) {
		shared, stores := newSharedMemory(t), []storage.Store{open(), open(), open()}
		for i := range 10 {
			workload := i % 2 // the workloads with one key
			require.True(t, legal(t, workload, history(t, shared, stores, workload, 0)))
		}
	})
}

// hours is a leap after which all states of these workloads have expired.
const hours = 12 * int64(time.Hour/tick)

// Without its fault, each store has linearizable histories.
func TestFaultyStoresAreNotLinearizable(t *testing.T) {
	faults := []struct {
		name string
		leap int64
		wrap func(shared sharedMemory, faulty bool) storage.Store
	}{
		{"a cache of states that were not stored", 0, func(_ sharedMemory, faulty bool) storage.Store {
			return &staleCache{Store: new(memory.Store), faulty: faulty, sent: map[string]storage.Record{}}
		}},
		{"a counter in place of the version", hours, func(shared sharedMemory, faulty bool) storage.Store {
			return newCountingStore(shared, faulty)
		}},
	}
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			shared, illegal := newSharedMemory(t), 0
			record := func(faulty bool) bool {
				s := fault.wrap(shared, faulty)
				return legal(t, 1, history(t, shared, []storage.Store{s, s, s}, 1, fault.leap))
			}
			for range 10 {
				require.True(t, record(false))
			}
			for tries := 1; illegal == 0; tries++ { // conflicts are random; one history is enough
				require.LessOrEqual(t, tries, 500)
				if !record(true) {
					illegal = tries
				}
			}
			t.Logf("history %d was not linearizable", illegal)
		})
	}
}

// staleCache has a cache that keeps the state of a swap with a conflict. The next load of the key
// returns this state, which was never stored.
type staleCache struct {
	storage.Store
	faulty bool
	mu     sync.Mutex
	sent   map[string]storage.Record
}

func (p *staleCache) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	runtime.Gosched() // a round trip
	current, swapped, err := p.Store.CompareAndSwap(ctx, swaps...)
	runtime.Gosched()
	if swapped || err != nil || !p.faulty {
		return current, swapped, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range swaps {
		p.sent[s.Key] = storage.Record{Version: s.New.Version, State: slices.Clone(s.New.State)}
	}
	return current, false, nil
}

func (p *staleCache) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	records, now, err := p.Store.Load(ctx, keys...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, key := range keys {
		if sent, ok := p.sent[key]; ok && err == nil {
			records[i] = sent
			delete(p.sent, key)
		}
	}
	return records, now, err
}

// countingStore compares the number of writes since the creation of the record in place of the
// version. The time of a swap is the time of its decision.
type countingStore struct {
	memory *memory.Store
	shared sharedMemory
	faulty bool
	mu     sync.Mutex
	now    time.Time
	counts map[recordID]int
}

func newCountingStore(shared sharedMemory, faulty bool) *countingStore {
	c := &countingStore{shared: shared, faulty: faulty, counts: map[recordID]int{}}
	c.memory = &memory.Store{Clock: func() time.Time { return c.now }}
	return c
}

// recordID identifies a record of a key.
type recordID struct {
	key     string
	version storage.Version
}

func (c *countingStore) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	runtime.Gosched() // a round trip
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = swaps[0].Until.Add(-swaps[0].TTL)
	own := slices.Clone(swaps)
	for i, s := range swaps {
		stored, _, err := c.memory.Load(ctx, s.Key)
		if err != nil {
			return nil, false, err
		}
		v := stored[0].Version
		if c.faulty && v != 0 && s.Old != 0 && c.counts[recordID{s.Key, v}] == c.counts[recordID{s.Key, s.Old}] {
			own[i].Old = v
		}
	}
	current, swapped, err := c.memory.CompareAndSwap(ctx, own...)
	if swapped {
		for _, s := range swaps {
			n := 0
			if s.Old != 0 {
				n = c.counts[recordID{s.Key, s.Old}]
			}
			c.counts[recordID{s.Key, s.New.Version}] = n + 1
		}
	}
	return current, swapped, err
}

func (c *countingStore) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.shared.now()
	return c.memory.Load(ctx, keys...)
}
