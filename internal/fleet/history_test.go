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

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// states is what a limiter of two rules holds of one key.
type states [rules]string

// sequential is the model of such a limiter: the pure steps of both, and both pay
// or none. What was paid must have been answered to the letter; a denial may rest
// on older states, and then tell of a shorter wait.
func sequential(t *testing.T, traffic int) porcupine.Model {
	policies, err := traffics[traffic].policies()
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
				return e.Fate == denied, from
			}
			return e.Fate == admitted && same, next
		},
	}
}

// burst is what these traffics allow at once.
const burst = 12

// history lets six callers ask for one key, two by each face of a store, as
// three processes would. Now and then one of them moves the clock on by leap.
func history(t *testing.T, shared page, faces []storage.Store, traffic int, leap int64) []porcupine.Operation {
	namespace := fmt.Sprintf("%s %x", t.Name(), rand.Uint64())
	var mu sync.Mutex
	var operations []porcupine.Operation
	var callers sync.WaitGroup
	for i, face := range faces {
		limiter, err := traffics[traffic].limiter(compose.Options[*asked]{Namespace: namespace, Clock: shared.now, Timeout: long}, face)
		require.NoError(t, err)
		for k := range 2 {
			callers.Go(func() {
				for n := range 8 {
					a := &asked{entry: entry{Member: i, Caller: k, Number: n, Key: "0", Cost: int64(1 + (i+k+n)%3), Call: shared.read()}}
					if n == 0 && k == 0 {
						a.Cost = burst // who comes first decides a lot
					}
					d, err := limiter.Allow(context.Background(), a)
					f, _ := fateOf(d, err)
					e := a.answered(d, f, err, shared.read())
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

func legal(t *testing.T, traffic int, operations []porcupine.Operation) bool {
	t.Helper()
	result := porcupine.CheckOperationsTimeout(sequential(t, traffic), operations, long)
	require.NotEqual(t, porcupine.Unknown, result)
	return result == porcupine.Ok
}

func privatePage(t *testing.T) page {
	shared, err := openPage(filepath.Join(t.TempDir(), "page"))
	require.NoError(t, err)
	return shared
}

func TestHistoriesAreLinearizableOnEveryStore(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() storage.Store) {
		shared, faces := privatePage(t), []storage.Store{open(), open(), open()}
		for i := range 20 {
			traffic := i % 2 // those of one key
			require.True(t, legal(t, traffic, history(t, shared, faces, traffic, 0)))
		}
	})
}

// hours is a leap after which every state of these traffics has lapsed.
const hours = 12 * int64(time.Hour/tick)

// What a store must not do is found out; without the fault the same histories
// are legal.
func TestFaultyStoresAreFoundOut(t *testing.T) {
	faults := []struct {
		name string
		leap int64
		wrap func(shared page, faulty bool) storage.Store
	}{
		{"a cache of states never applied", 0, func(_ page, faulty bool) storage.Store {
			return &phantoms{Store: new(memory.Store), faulty: faulty, sent: map[string]storage.Record{}}
		}},
		{"versions replaced by a counter", hours, func(shared page, faulty bool) storage.Store {
			return newCounting(shared, faulty)
		}},
	}
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			shared, illegal := privatePage(t), 0
			record := func(faulty bool) bool {
				s := fault.wrap(shared, faulty)
				return legal(t, 1, history(t, shared, []storage.Store{s, s, s}, 1, fault.leap))
			}
			for range 50 {
				require.True(t, record(false))
			}
			for tries := 1; illegal == 0; tries++ { // it is a race; one history is enough
				require.LessOrEqual(t, tries, 500)
				if !record(true) {
					illegal = tries
				}
			}
			t.Logf("history %d was illegal", illegal)
		})
	}
}

// phantoms has a cache in front that is filled before the write and not cleared
// when that loses: the next to load the key is told of a state that never was.
type phantoms struct {
	storage.Store
	faulty bool
	mu     sync.Mutex
	sent   map[string]storage.Record
}

func (p *phantoms) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
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

func (p *phantoms) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	records, err := p.Store.Load(ctx, keys...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, key := range keys {
		if sent, ok := p.sent[key]; ok && err == nil {
			records[i] = sent
			delete(p.sent, key)
		}
	}
	return records, err
}

// counting compares not versions but how many there have been since the record
// was created. In its memory the time of a swap is that of the decision.
type counting struct {
	memory *memory.Store
	shared page
	faulty bool
	mu     sync.Mutex
	now    time.Time
	counts map[written]int
}

func newCounting(shared page, faulty bool) *counting {
	c := &counting{shared: shared, faulty: faulty, counts: map[written]int{}}
	c.memory = &memory.Store{Clock: func() time.Time { return c.now }}
	return c
}

// written is a record of a key.
type written struct {
	key     string
	version storage.Version
}

func (c *counting) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	runtime.Gosched() // a round trip
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = swaps[0].Until.Add(-swaps[0].TTL)
	own := slices.Clone(swaps)
	for i, s := range swaps {
		there, err := c.memory.Load(ctx, s.Key)
		if err != nil {
			return nil, false, err
		}
		v := there[0].Version
		if c.faulty && v != 0 && s.Old != 0 && c.counts[written{s.Key, v}] == c.counts[written{s.Key, s.Old}] {
			own[i].Old = v
		}
	}
	current, swapped, err := c.memory.CompareAndSwap(ctx, own...)
	if swapped {
		for _, s := range swaps {
			n := 0
			if s.Old != 0 {
				n = c.counts[written{s.Key, s.Old}]
			}
			c.counts[written{s.Key, s.New.Version}] = n + 1
		}
	}
	return current, swapped, err
}

func (c *counting) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.shared.now()
	return c.memory.Load(ctx, keys...)
}
