package fleet

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// record records a run of a few callers on a store in memory, in this process.
func record(t *testing.T, store storage.Store, between ...func(*fleet)) *verifier {
	f := newFleet(t, "", 0, longTimeout)
	f.store, f.task.Callers = store, 4
	for i := 0; i <= len(between); i++ {
		own := f.task
		own.Member, own.Journal = i, f.journal(i)
		done := make(chan error, 1)
		f.page.words[1].Store(0)
		go func() { done <- own.work(store) }()
		f.await("admissions", []int{i}, admissions, 40)
		f.await("denials", []int{i}, func(d counters) int64 { return d.denied.Load() }, 40)
		f.page.stop()
		require.NoError(t, <-done)
		if i < len(between) {
			between[i](f)
		}
	}
	return f.newVerifier(len(between) + 1)
}

// nth returns the n-th entry with an outcome.
func (v *verifier) nth(f outcome, n int) (place int, e *entry) {
	for i, e := range v.entries {
		if e.Outcome == f {
			if n--; n < 0 {
				return i, e
			}
		}
	}
	panic("no such entry")
}

// Each check of the verifier finds its forgery in a correct journal.
func TestVerifierFindsForgeries(t *testing.T) {
	forgeries := map[string]func(*verifier){
		"no decision left the state": func(v *verifier) { // an admission is missing
			i, _ := v.nth(admitted, 20)
			v.entries = append(v.entries[:i], v.entries[i+1:]...)
		},
		"found the same state": func(v *verifier) { // an admission is there twice
			_, e := v.nth(admitted, 20)
			again := *e
			v.entries = append(v.entries, &again)
		},
		"Step returns": func(v *verifier) { _, e := v.nth(admitted, 20); e.Steps[1].Result.Remaining++ },
		"Peek returns": func(v *verifier) { _, e := v.nth(denied, 20); e.Steps[1].Result.RetryAfter++ },
		"no rule denies it": func(v *verifier) {
			_, e := v.nth(denied, 20)
			for r := range e.Steps {
				e.Steps[r].Found = nil
				e.Steps[r].Result, _ = v.policies[r].Peek(nil, e.time(), e.Cost)
			}
		},
		"the stored state": func(v *verifier) { v.stored[stateKey{1, ""}] = v.stored[stateKey{1, ""}][1:] },
		"the bound is":     func(v *verifier) { v.policies[1] = strict{v.policies[1]} },
		"the account of all decisions": func(v *verifier) {
			lenient := *v.workload
			lenient.oracles[0] = algotest.Bucket(algo.Per(10, time.Hour), 13)
			v.workload = &lenient
		},
		"committed after it": func(v *verifier) {
			_, e := v.nth(admitted, 30)
			e.Return = 0
		},
		"by a state of a later call": func(v *verifier) {
			_, e := v.nth(denied, 20)
			e.Return = 0
		},
		"denied by an old state": func(v *verifier) {
			c := v.chains[stateKey{0, "0"}]
			late := *c.entries[24] // a denial by the state of four decisions earlier
			late.Outcome, late.Cost, late.Now = denied, 13, c.latest[24].UnixNano()
			for r := range late.Steps {
				late.Steps[r].Found = c.entries[20].Steps[r].Next
				late.Steps[r].Result, _ = v.policies[r].Peek(late.Steps[r].Found, late.time(), late.Cost)
			}
			v.entries = append(slices.Clone(c.entries), &late)
			v.policies[0] = forgiving{v.policies[0], string(late.Steps[0].Found)}
		},
		"are in one order": func(v *verifier) { // a cycle beside the chain
			_, e := v.nth(admitted, 20)
			ring := *e
			for r := range ring.Steps {
				ring.Steps[r].Found, ring.Steps[r].Next = []byte("ring"), []byte("ring")
			}
			v.entries = append(v.entries, &ring)
		},
	}
	for fault, forge := range forgeries {
		t.Run(fault, func(t *testing.T) {
			v := record(t, new(memory.Store))
			require.Empty(t, v.verify())
			forge(v)
			require.Contains(t, strings.Join(v.verify(), "\n"), fault)
		})
	}
}

// strict is a policy whose bound is lower than what it admits.
type strict struct{ algo.Policy }

func (s strict) Bound(interval time.Duration) int64 { return s.Policy.Bound(interval) / 2 }

// forgiving is a policy that allows each Peek except for one state.
type forgiving struct {
	algo.Policy
	but string
}

func (f forgiving) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	r, err := f.Policy.Peek(state, now, cost)
	r.Allowed = r.Allowed || string(state) != f.but
	return r, err
}

func TestVerifierFindsDifferentOrders(t *testing.T) {
	a, b := &entry{Number: 1}, &entry{Number: 2}
	v := &verifier{workload: &workloads[0], chains: map[stateKey]*chain{
		{0, "k"}: {stateKey: stateKey{0, "k"}, entries: []*entry{a, b}},
		{1, ""}:  {stateKey: stateKey{1, ""}, entries: []*entry{b, a}, place: map[*entry]int{b: 0, a: 1}},
	}}
	v.oneOrder()
	require.Contains(t, strings.Join(v.faults, "\n"), "the rules have different orders")
}

// The store loses its state once. That is a fault unless the verifier expects it.
func TestVerifierFindsLostState(t *testing.T) {
	v := record(t, new(memory.Store), func(f *fleet) {
		l, err := workloads[0].limiter(sluice.Options[*recordedCall]{Namespace: f.task.Namespace, Clock: f.page.now}, f.store)
		require.NoError(t, err)
		require.NoError(t, l.Reset(context.Background(), &recordedCall{entry: entry{Key: "0", Cost: 1}}))
	})
	require.Contains(t, strings.Join(v.verify(), "\n"), "the store lost the state")
	v.faults, v.forgets = nil, 1
	require.Empty(t, v.verify())
}

// overwritingStore applies each swap, despite conflicts. Some loads are as old as the last write, as if another process had
// written after them.
type overwritingStore struct {
	storage.Store
	mu     sync.Mutex
	before map[string]storage.Record
	loads  int
}

func (h *overwritingStore) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	records, now, err := h.Store.Load(ctx, keys...)
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, key := range keys {
		if h.loads++; err == nil && h.loads%10 == 0 && h.before[key].Version != 0 {
			records[i] = h.before[key]
		}
	}
	return records, now, err
}

func (h *overwritingStore) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range swaps {
		found, _, err := h.Store.Load(ctx, swaps[i].Key)
		if err != nil {
			return nil, false, err
		}
		swaps[i].Old, h.before[swaps[i].Key] = found[0].Version, found[0]
	}
	return h.Store.CompareAndSwap(ctx, swaps...)
}

func TestVerifierFindsAStoreThatIgnoresConflicts(t *testing.T) {
	store := &overwritingStore{Store: new(memory.Store), before: map[string]storage.Record{}}
	require.NotEmpty(t, record(t, store).verify())
}

// A decision with an unknown outcome counts if its state was found, and at most once.
func TestDecisionsWithUnknownOutcomeCountAtMostOnce(t *testing.T) {
	for _, uncertain := range []outcome{begun, unknown} {
		v := record(t, new(memory.Store))
		_, seen := v.nth(admitted, 20)
		seen.Outcome = uncertain
		twin, unseen := *seen, *seen
		twin.Caller, unseen.Caller = 99, 100
		for r := range unseen.Steps {
			unseen.Steps[r].Next = []byte("never")
		}
		v.entries = append(v.entries, &twin, &unseen)
		require.Empty(t, v.verify())

		seen.Outcome, twin.Outcome = refused, refused
		require.NotEmpty(t, v.verify(), "the outcome says that nothing was paid")

		_, other := v.nth(admitted, 30)
		v.faults, twin.Outcome, other.Outcome = nil, uncertain, uncertain
		require.Empty(t, v.verify())
		other.Caller, other.Number = twin.Caller, twin.Number
		require.NotEmpty(t, v.verify(), "one decision was committed twice")
	}
}
