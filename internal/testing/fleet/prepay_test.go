package fleet

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
)

// The processes share a key. Every other tenth of a second they call for much more than its limit, and then not at all, so that units
// come back and the purchases grow.
const (
	prepaidSpec  = "gcra 2000/s burst=500"
	prepaidFor   = 50 * time.Millisecond
	prepaidThink = 5 * time.Millisecond
)

// prepaidEntry is an allowed call of a process that buys calls ahead.
type prepaidEntry struct {
	Call, Return int64 // by the clock of the machine, in ns since 1970
	Prepaid      bool
}

// spendPrepaid makes calls until the run is stopped.
func (t task) spendPrepaid(store storage.Store, shared sharedMemory, j *journal) error {
	limiter, err := sluice.Options[string]{
		Namespace: t.Namespace, Timeout: longTimeout, Prepay: sluice.Prepay{Calls: 50, For: prepaidFor},
	}.New(store, sluice.PerKey(prepaidSpec))
	if err != nil {
		return err
	}
	counters := shared.counters(t.Member)
	return concurrently(t.Callers, func(int) error {
		for ; !shared.stopped(); time.Sleep(rand.N(prepaidThink)) {
			if time.Now().UnixMilli()/100%2 == 1 {
				continue
			}
			e := prepaidEntry{Call: time.Now().UnixNano()}
			d, err := limiter.Allow(context.Background(), "k")
			if err != nil {
				return err
			}
			if !d.Allowed {
				continue
			}
			e.Return, e.Prepaid = time.Now().UnixNano(), d.Prepaid
			if err := j.write(e); err != nil {
				return err
			}
			counters.admitted.Add(1)
		}
		return nil
	})
}

// The calls of processes that buy ahead stay within the Bound, also if some are killed with calls that they have bought.
func TestKilledProcessesThatBuyAheadStayWithinTheBound(t *testing.T) {
	for name, address := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, address(t), 0, longTimeout)
			f.task.Prepays, f.task.Callers = true, 8
			f.runWithKills(300)
			requireWithinBound(t, readJournals[prepaidEntry](f))
		})
	}
}

// requireWithinBound requires that no interval has more calls than the Bound of the interval and prepaidFor. A call was bought between
// prepaidFor before it began and its return.
func requireWithinBound(t *testing.T, entries []*prepaidEntry) {
	policy, prepaid := sluice.MustPolicy(prepaidSpec), 0
	slices.SortFunc(entries, func(a, b *prepaidEntry) int { return cmp.Compare(a.Return, b.Return) })
	for i, first := range entries {
		if first.Prepaid {
			prepaid++
		}
		if i%7 > 0 { // all would take long
			continue
		}
		calls := int64(0)
		for _, last := range entries {
			if last.Call < first.Call {
				continue
			}
			calls++
			span := time.Duration(last.Return-first.Call) + time.Microsecond // a server counts in microseconds
			if most := policy.Bound(span + prepaidFor); calls > most {
				t.Fatalf("%d calls in %v, at most %d are allowed", calls, span, most)
			}
		}
	}
	require.Greater(t, prepaid, len(entries)/4, len(entries))
}
