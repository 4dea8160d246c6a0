// Package linearizable checks with porcupine that concurrent decisions on one key are
// linearizable: some order of them, in which none moves before one that had ended when
// it began, gives the same results when the pure Step decides one after the other.
package linearizable

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// attempt is one call of a history: what was asked, by which reading of the clock it
// was decided, and how.
type attempt struct {
	policy  algo.Policy
	cost    int64
	now     time.Time
	allowed bool
}

// noting is a policy that notes the time of its last step, which is the one that counts.
type noting struct {
	algo.Policy
	attempt *attempt
}

func (n noting) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	n.attempt.now = now
	return n.Policy.Step(dst, state, now, cost)
}

// sequential is the model of a limiter: the pure step and nothing else.
var sequential = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		a := input.(*attempt)
		next, r, err := a.policy.Step(nil, []byte(state.(string)), a.now, a.cost)
		return err == nil && r.Allowed == a.allowed, string(next)
	},
}

// history lets callers hammer one key of a store on a clock that every reading moves
// on, through two limiters, as the callers of two processes would.
func history(t *testing.T, store storage.Store, spec string, o compose.Options[*attempt]) []porcupine.Operation {
	const callers, calls = 6, 40
	var clock atomic.Int64
	clock.Store(1e18)
	policy, err := compose.ParsePolicy(spec)
	require.NoError(t, err)
	var mu sync.Mutex
	var ops []porcupine.Operation
	var wg sync.WaitGroup
	o.Clock, o.Timeout = func() time.Time { return time.Unix(0, clock.Add(1)) }, time.Minute
	var limiters [2]*compose.Limiter[*attempt]
	for i := range limiters {
		var err error
		limiters[i], err = o.New(store, compose.Rule[*attempt]{
			Name:      "one key",
			PolicyFor: func(a *attempt) (algo.Policy, error) { return noting{a.policy, a}, nil },
			Cost:      func(a *attempt) int64 { return a.cost },
		})
		require.NoError(t, err)
	}
	for caller := range callers {
		wg.Go(func() {
			for i := range calls {
				a := &attempt{policy: policy, cost: 1 + int64(i%3)}
				began := clock.Add(1)
				d, err := limiters[caller%2].Allow(context.Background(), a)
				if err != nil {
					t.Error(err)
					return
				}
				a.allowed = d.Allowed
				mu.Lock()
				ops = append(ops, porcupine.Operation{ClientId: caller, Input: a, Call: began, Return: clock.Add(1)})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return ops
}

// contended hides all abilities of a store but the plain ones.
type contended struct{ storage.Store }

// forgetful applies every swap, whatever is stored: what a store must not do.
type forgetful struct{ storage.Store }

func (f forgetful) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	for {
		current, swapped, err := f.Store.CompareAndSwap(ctx, swaps...)
		if swapped || err != nil {
			return nil, swapped, err
		}
		for i := range swaps {
			swaps[i].Old = current[i].Version
		}
	}
}

func TestHistoriesAreLinearizable(t *testing.T) {
	for _, spec := range []string{"gcra 30/us", "tokenbucket 30/us refill=interval", "fixedwindow 30/us", "movingwindow 30/us slots=4"} {
		for name, store := range map[string]storage.Store{
			"under the store's lock": new(memory.Store),
			"by compare-and-swap":    contended{new(memory.Store)},
		} {
			t.Run(spec+" "+name, func(t *testing.T) {
				ops := history(t, store, spec, compose.Options[*attempt]{})
				require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(sequential, ops, time.Minute))
			})
		}
	}
}

func TestHistoriesAreLinearizableWithoutACacheAndWithOneRoundTrip(t *testing.T) {
	for i := range 4 {
		o := compose.Options[*attempt]{MaxRoundTrips: i & 1}
		if i&2 > 0 {
			o.DenialCacheTTL = -1
		}
		t.Run(fmt.Sprintf("%02b", i), func(t *testing.T) {
			ops := history(t, contended{new(memory.Store)}, "gcra 30/us", o)
			require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(sequential, ops, time.Minute))
		})
	}
}

func TestAForgetfulStoreIsFoundOut(t *testing.T) {
	for range 100 { // it is a race; one history that is illegal is enough
		ops := history(t, forgetful{new(memory.Store)}, "gcra 30/s", compose.Options[*attempt]{})
		if porcupine.CheckOperationsTimeout(sequential, ops, time.Minute) == porcupine.Illegal {
			return
		}
	}
	t.Fatal("no history was found illegal")
}
