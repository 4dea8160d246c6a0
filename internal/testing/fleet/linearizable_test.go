package fleet

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

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

// isLinearizable records calls of six callers for one key, two on each store, like three processes. It reports whether the model
// can make them in an order that agrees with their times.
func isLinearizable(t *testing.T, workload int, stores ...storage.Store) bool {
	t.Helper()
	f := newFleet(t, "", workload, longTimeout)
	f.task.Callers, f.task.Enough = 2, 8
	f.workHere(stores...)
	var operations []porcupine.Operation
	for _, e := range readJournals[entry](f) {
		require.Empty(t, e.Err)
		operations = append(operations, porcupine.Operation{ClientId: 2*e.Member + e.Caller, Call: e.Call, Output: e, Return: e.Return})
	}
	result := porcupine.CheckOperationsTimeout(sequential(workload), operations, longTimeout)
	require.NotEqual(t, porcupine.Unknown, result)
	return result == porcupine.Ok
}

func TestHistoriesAreLinearizableOnEachStore(t *testing.T) {
	forEachStore(t, func(t *testing.T, open func() storage.Store) {
		a, b, c := open(), open(), open()
		for i := range 10 {
			require.True(t, isLinearizable(t, i%2, a, b, c)) // the workloads with one key
		}
	})
}

// Without conflicts, updates are lost. Conflicts are random; one history is enough.
func TestStoreThatIgnoresConflictsIsNotLinearizable(t *testing.T) {
	for tries := 1; ; tries++ {
		require.LessOrEqual(t, tries, 500)
		if s := newOverwritingStore(); !isLinearizable(t, 1, s, s, s) {
			return
		}
	}
}
