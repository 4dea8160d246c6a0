package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
)

// states are the states of one key under both rules.
type states [rules]string

// sequential is the model of a limiter with two rules: both steps pay, or none. The results of
// admissions must be equal. A denial may be based on older states and have a shorter RetryAfter.
func sequential(workload int) porcupine.Model {
	policies := workloads[workload].policies()
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
func history(t *testing.T, shared sharedMemory, stores []storage.Store, workload int) []porcupine.Operation {
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
				}
			})
		}
	}
	callers.Wait()
	return operations
}

func legal(t *testing.T, workload int, operations []porcupine.Operation) bool {
	t.Helper()
	result := porcupine.CheckOperationsTimeout(sequential(workload), operations, longTimeout)
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
			require.True(t, legal(t, workload, history(t, shared, stores, workload)))
		}
	})
}

// Without conflicts, updates are lost. Conflicts are random; one history is enough.
func TestStoreThatIgnoresConflictsIsNotLinearizable(t *testing.T) {
	shared, tries := newSharedMemory(t), 1
	for ; ; tries++ {
		require.LessOrEqual(t, tries, 500)
		s := newOverwritingStore()
		if !legal(t, 1, history(t, shared, []storage.Store{s, s, s}, 1)) {
			break
		}
	}
	t.Logf("history %d was not linearizable", tries)
}
