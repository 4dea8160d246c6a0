package fleet

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// record lets a few callers work on a store in memory, in one process.
func record(t *testing.T, store storage.Store, between ...func(*fleet)) *judge {
	f := newFleet(t, "", 0, long)
	f.store, f.task.Callers = store, 4
	for i := 0; i <= len(between); i++ {
		own := f.task
		own.Member, own.Journal = i, f.journal(i)
		done := make(chan error, 1)
		f.page.words[1].Store(0)
		go func() { done <- own.work(store) }()
		f.await("admissions", []int{i}, admissions, 40)
		f.await("denials", []int{i}, func(d desk) int64 { return d.denied.Load() }, 40)
		f.page.stop()
		require.NoError(t, <-done)
		if i < len(between) {
			between[i](f)
		}
	}
	return f.judge(len(between) + 1)
}

// nth is the n-th entry of a fate.
func (j *judge) nth(f fate, n int) (place int, e *entry) {
	for i, e := range j.entries {
		if e.Fate == f {
			if n--; n < 0 {
				return i, e
			}
		}
	}
	panic("no such entry")
}

// Every check of the judge finds what was forged in an honest journal.
func TestForgeriesAreFound(t *testing.T) {
	forgeries := map[string]func(*judge){
		"nobody left the state": func(j *judge) { // an admission is withheld
			i, _ := j.nth(admitted, 20)
			j.entries = append(j.entries[:i], j.entries[i+1:]...)
		},
		"spent the same state": func(j *judge) { // and one is there twice
			_, e := j.nth(admitted, 20)
			again := *e
			j.entries = append(j.entries, &again)
		},
		"the step says": func(j *judge) { _, e := j.nth(admitted, 20); e.Steps[1].Result.Remaining++ },
		"a look says":   func(j *judge) { _, e := j.nth(denied, 20); e.Steps[1].Result.RetryAfter++ },
		"denied by no rule": func(j *judge) {
			_, e := j.nth(denied, 20)
			for r := range e.Steps {
				e.Steps[r].Found = nil
				e.Steps[r].Result, _ = j.policies[r].Peek(nil, e.time(), e.Cost)
			}
		},
		"the store holds": func(j *judge) { j.stored[lane{1, ""}] = j.stored[lane{1, ""}][1:] },
		"the bound is":    func(j *judge) { j.policies[1] = strict{j.policies[1]} },
		"by the account of all decisions": func(j *judge) {
			lenient := *j.traffic
			lenient.oracles[0] = algotest.Bucket(algo.Per(10, time.Hour), 13)
			j.traffic = &lenient
		},
		"committed after it": func(j *judge) {
			_, e := j.nth(admitted, 30)
			e.Return = 0
		},
		"asked for later": func(j *judge) {
			_, e := j.nth(denied, 20)
			e.Return = 0
		},
		"was left behind": func(j *judge) {
			c := j.chains[lane{0, "0"}]
			late := *c.entries[24] // a denial by what was there four decisions earlier
			late.Fate, late.Cost, late.Now = denied, 13, c.latest[24].UnixNano()
			for r := range late.Steps {
				late.Steps[r].Found = c.entries[20].Steps[r].Next
				late.Steps[r].Result, _ = j.policies[r].Peek(late.Steps[r].Found, late.time(), late.Cost)
			}
			j.entries = append(slices.Clone(c.entries), &late)
			j.policies[0] = forgiving{j.policies[0], string(late.Steps[0].Found)}
		},
		"are in one order": func(j *judge) { // a ring, beside the chain
			_, e := j.nth(admitted, 20)
			ring := *e
			for r := range ring.Steps {
				ring.Steps[r].Found, ring.Steps[r].Next = []byte("ring"), []byte("ring")
			}
			j.entries = append(j.entries, &ring)
		},
	}
	for fault, forge := range forgeries {
		t.Run(fault, func(t *testing.T) {
			j := record(t, new(memory.Store))
			require.Empty(t, j.verdict())
			forge(j)
			require.Contains(t, strings.Join(j.verdict(), "\n"), fault)
		})
	}
}

// strict is a policy that promises less than it admits.
type strict struct{ algo.Policy }

func (s strict) Bound(interval time.Duration) int64 { return s.Policy.Bound(interval) / 2 }

// forgiving is a policy that allows whatever it is asked on every state but one.
type forgiving struct {
	algo.Policy
	but string
}

func (f forgiving) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	r, err := f.Policy.Peek(state, now, cost)
	r.Allowed = r.Allowed || string(state) != f.but
	return r, err
}

func TestRulesThatDisagreeAreFound(t *testing.T) {
	a, b := &entry{Number: 1}, &entry{Number: 2}
	j := &judge{traffic: &traffics[0], chains: map[lane]*chain{
		{0, "k"}: {lane: lane{0, "k"}, entries: []*entry{a, b}},
		{1, ""}:  {lane: lane{1, ""}, entries: []*entry{b, a}, place: map[*entry]int{b: 0, a: 1}},
	}}
	j.oneOrder()
	require.Contains(t, strings.Join(j.guilt, "\n"), "the rules disagree")
}

// What was used is forgotten once; that is a fault unless it is said to happen.
func TestForgettingIsFound(t *testing.T) {
	j := record(t, new(memory.Store), func(f *fleet) {
		l, err := traffics[0].limiter(compose.Options[*asked]{Namespace: f.task.Namespace, Clock: f.page.now}, f.store)
		require.NoError(t, err)
		require.NoError(t, l.Reset(context.Background(), &asked{entry: entry{Key: "0", Cost: 1}}))
	})
	require.Contains(t, strings.Join(j.verdict(), "\n"), "has been forgotten")
	j.guilt, j.forgets = nil, 1
	require.Empty(t, j.verdict())
}

// heedless applies every swap, whatever is stored.
type heedless struct{ storage.Store }

func (h heedless) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	for {
		current, swapped, err := h.Store.CompareAndSwap(ctx, swaps...)
		if swapped || err != nil {
			return nil, swapped, err
		}
		for i := range swaps {
			swaps[i].Old = current[i].Version
		}
	}
}

func TestAHeedlessStoreIsFound(t *testing.T) {
	for range 100 { // it is a race; one run that goes wrong is enough
		if len(record(t, heedless{new(memory.Store)}).verdict()) > 0 {
			return
		}
	}
	t.Fatal("no run was found wrong")
}

// A decision that nobody knows the outcome of counts if what it left was seen,
// once, and not otherwise.
func TestUncertainDecisionsCountAtMostOnce(t *testing.T) {
	for _, uncertain := range []fate{begun, unknown} {
		j := record(t, new(memory.Store))
		_, seen := j.nth(admitted, 20)
		seen.Fate = uncertain
		twin, unseen := *seen, *seen
		twin.Caller, unseen.Caller = 99, 100
		for r := range unseen.Steps {
			unseen.Steps[r].Next = []byte("never")
		}
		j.entries = append(j.entries, &twin, &unseen)
		require.Empty(t, j.verdict())

		seen.Fate, twin.Fate = refused, refused
		require.NotEmpty(t, j.verdict(), "nothing was paid, it was said")

		_, other := j.nth(admitted, 30)
		j.guilt, twin.Fate, other.Fate = nil, uncertain, uncertain
		require.Empty(t, j.verdict())
		other.Caller, other.Number = twin.Caller, twin.Number
		require.NotEmpty(t, j.verdict(), "one decision, and it was paid twice")
	}
}
