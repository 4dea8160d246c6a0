package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// batchOf makes a batch of requests on keys with these names.
func batchOf(p *portable, names []string, requests ...driver.Request) *driver.Batch {
	b := &driver.Batch{Version: storage.NewVersion(), Programs: []*algo.Program{&p.program}, Requests: requests}
	for _, name := range names {
		b.Keys = append(b.Keys, key(name))
	}
	return b
}

// ask is a request of one or more uses.
func ask(uses ...driver.Use) driver.Request { return driver.Request{Times: 1, Uses: uses} }

// allow is a use that takes cost units of the key with that index.
func allow(key int, cost int64) driver.Use { return driver.Use{Key: key, Cost: cost} }

func shadow(key int, cost int64) driver.Use { return driver.Use{Key: key, Cost: cost, Shadow: true} }

func do(op driver.Op, key int, cost int64) driver.Use {
	return driver.Use{Op: op, Key: key, Cost: cost}
}

// tryRun runs batches, again while the store says that it was contended.
func (s *subject) tryRun(batches ...*driver.Batch) {
	for len(batches) > 0 && s.ctx.Err() == nil {
		s.Store.(driver.Server).Run(s.ctx, batches...)
		batches = slices.DeleteFunc(slices.Clone(batches), func(b *driver.Batch) bool { return !errors.Is(b.Err, storage.ErrContended) })
	}
}

// run runs a batch that must succeed, and returns what was applied of each request.
func (s *subject) run(b *driver.Batch) (applied []int) {
	s.tryRun(b)
	if b.Err != nil {
		s.fail("Run of a batch with %d keys from %.40q: %v", len(b.Keys), b.Keys[0], b.Err)
	}
	for i, err := range b.KeyErr {
		if err != nil {
			s.fail("Run of a batch: key %.40q: %v", b.Keys[i], err)
		}
	}
	if len(b.Found) != len(b.Keys) {
		s.fail("Run of a batch with %d keys found %d records", len(b.Keys), len(b.Found))
	}
	return appliedOf(b)
}

func appliedOf(b *driver.Batch) (applied []int) {
	for i := range b.Requests {
		applied = append(applied, b.Requests[i].Applied)
	}
	return applied
}

// applies runs a batch of which that much must be applied.
func (s *subject) applies(b *driver.Batch, want ...int) {
	if got := s.run(b); !slices.Equal(got, want) {
		s.fail("of the requests %s, %v should be applied, %v is", showRequests(b), want, got)
	}
}

func showRequests(b *driver.Batch) string {
	names := [...]string{"allow", "refund", "charge", "peek", "reset"}
	var shown []string
	for _, r := range b.Requests[:min(len(b.Requests), 10)] {
		var uses []string
		for _, u := range r.Uses {
			kind := ""
			if u.Shadow {
				kind = "shadow "
			}
			uses = append(uses, fmt.Sprintf("%s%s %d of key %d", kind, names[u.Op], u.Cost, u.Key))
		}
		shown = append(shown, fmt.Sprintf("%d x (%s)", r.Times, strings.Join(uses, ", ")))
	}
	return strings.Join(shown, "; ")
}

// spent requires that a key holds the state after these costs, all taken at one time.
func (s *subject) spent(name string, version storage.Version, p *portable, at time.Time, costs ...int64) {
	var state []byte
	for _, cost := range costs {
		next, r, err := p.Step(nil, state, at, cost)
		if err != nil || !r.Allowed {
			panic(fmt.Sprint("storagetest: a cost of ", cost, " is not allowed: ", err))
		}
		state = next
	}
	s.holds(key(name), version, string(state))
}

var serverLaws = []Law{
	{
		Name:     "a batch returns what it found",
		Sentence: "Run returns the record of each key before the batch, and the time, so that Step on them makes what is stored after it.",
		check: func(s *subject) {
			first := batchOf(tenAnHour, []string{"a", "b"}, ask(allow(0, 1)), ask(allow(1, 4)))
			s.applies(first, 1, 1)
			if !absent(first.Found[0]) || !absent(first.Found[1]) {
				s.fail("an empty store was found to hold %s and %s", show(first.Found[0]), show(first.Found[1]))
			}
			s.spent("a", first.Version, tenAnHour, first.At, 1)
			s.spent("b", first.Version, tenAnHour, first.At, 4)
			second := batchOf(tenAnHour, []string{"b", "new", "a"}, ask(allow(0, 2)), ask(allow(2, 3)), ask(allow(0, 1)))
			before := []storage.Record{s.get(key("b")), {}, s.get(key("a"))}
			s.applies(second, 1, 1, 1)
			for i, found := range second.Found {
				if found.Version != before[i].Version || string(found.State) != string(before[i].State) {
					s.fail("key %d held %s, Run found %s", i, show(before[i]), show(found))
				}
			}
			state, _, err := tenAnHour.Step(nil, before[2].State, second.At, 3)
			if err != nil {
				s.fail("Step on the state found: %v", err)
			}
			s.holds(key("a"), second.Version, string(state))
			s.lacks(key("new"))
			third := batchOf(tenAnHour, []string{"a"}, ask(do(driver.Peek, 0, 0)))
			s.applies(third, 0)
			for i := range third.Found[0].State {
				third.Found[0].State[i]++ // it belongs to the caller
			}
			s.holds(key("a"), second.Version, string(state))
		},
	},
	{
		Name:     "requests of a batch are decided in order",
		Sentence: "Each request of a batch is decided on the states that the requests before it left.",
		check: func(s *subject) {
			s.applies(batchOf(threeAnHour, []string{"a", "b"},
				ask(allow(0, 2)), ask(allow(0, 2)), ask(allow(1, 3)), ask(allow(0, 1)), ask(allow(0, 1)),
				ask(do(driver.Refund, 0, 2)), ask(allow(0, 2)), ask(allow(1, 1), allow(0, 1))),
				1, 0, 1, 1, 0, 1, 1, 0)
			s.applies(batchOf(threeAnHour, []string{"a"}, ask(allow(0, 3))), 0)
		},
	},
	{
		Name:     "equal requests are decided one after the other",
		Sentence: "Of a request that stands for several equal ones, the first ones are allowed, until one does not fit.",
		check: func(s *subject) {
			for _, c := range []struct {
				times       int
				cost        int64
				fit         int
				otherBefore int64
			}{{5, 1, 3, 0}, {2, 1, 2, 0}, {3, 1, 3, 0}, {4, 2, 1, 0}, {2, 4, 0, 0}, {3, 1, 2, 1}, {1000, 1, 3, 0}} {
				name := fmt.Sprint(c)
				costs := slices.Repeat([]int64{c.cost}, c.fit)
				b := batchOf(threeAnHour, []string{name}, driver.Request{Times: c.times, Uses: []driver.Use{allow(0, c.cost)}})
				b.Now = s.Now().Round(0)
				want := []int{c.fit}
				if c.otherBefore > 0 {
					b.Requests = slices.Insert(b.Requests, 0, ask(allow(0, c.otherBefore)))
					want, costs = []int{1, c.fit}, append([]int64{c.otherBefore}, costs...)
				}
				s.applies(b, want...)
				if len(costs) == 0 {
					s.lacks(key(name))
				} else {
					s.spent(name, b.Version, threeAnHour, b.Now, costs...)
				}
			}
			many := batchOf(thousandAnHour, []string{"many"}, driver.Request{Times: 1001, Uses: []driver.Use{allow(0, 1)}})
			s.applies(many, 1000)
		},
	},
	{
		Name:     "a request takes all its units or none",
		Sentence: "A request that an enforced use denies changes none of its keys; else each use that allows it takes its cost.",
		check: func(s *subject) {
			full := batchOf(threeAnHour, []string{"full"}, ask(allow(0, 3)))
			s.applies(full, 1)
			b := batchOf(threeAnHour, []string{"a", "full", "b"},
				ask(allow(0, 1), allow(1, 1)), ask(allow(1, 1), allow(2, 1)), ask(allow(0, 1), allow(2, 2)))
			b.Now = s.Now().Round(0)
			s.applies(b, 0, 0, 2)
			s.spent("a", b.Version, threeAnHour, b.Now, 1)
			s.spent("b", b.Version, threeAnHour, b.Now, 2)
			s.spent("full", full.Version, threeAnHour, full.At, 3)
			s.applies(batchOf(threeAnHour, []string{"full", "c"}, ask(allow(0, 1), allow(1, 1))), 0)
			s.lacks(key("c"))
		},
	},
	{
		Name:     "a shadow use denies nothing",
		Sentence: "A shadow use takes its cost if that is there and the request is allowed, and it denies no request.",
		check: func(s *subject) {
			full := batchOf(threeAnHour, []string{"full"}, ask(allow(0, 3)))
			s.applies(full, 1)
			b := batchOf(threeAnHour, []string{"a", "full", "b"},
				ask(shadow(1, 1), allow(0, 1)), ask(shadow(2, 1), allow(0, 1)), ask(allow(1, 1), shadow(2, 1)), ask(shadow(1, 1)))
			b.Now = s.Now().Round(0)
			s.applies(b, 1, 2, 0, 0)
			s.spent("a", b.Version, threeAnHour, b.Now, 1, 1)
			s.spent("b", b.Version, threeAnHour, b.Now, 1)
			s.spent("full", full.Version, threeAnHour, full.At, 3)
		},
	},
	{
		Name:     "a peek changes nothing",
		Sentence: "A Peek reads its key and changes nothing, also beside uses that do.",
		check: func(s *subject) {
			a := batchOf(threeAnHour, []string{"a"}, ask(allow(0, 1)))
			s.applies(a, 1)
			peek := batchOf(threeAnHour, []string{"a", "b", "absent"}, ask(do(driver.Peek, 0, 0)), ask(do(driver.Peek, 0, 0), allow(1, 1)), ask(do(driver.Peek, 2, 0)))
			s.applies(peek, 0, 1, 0)
			if peek.Found[0].Version != a.Version || !absent(peek.Found[2]) {
				s.fail("a peek found %s and %s", show(peek.Found[0]), show(peek.Found[2]))
			}
			s.spent("a", a.Version, threeAnHour, a.At, 1)
			s.lacks(key("absent"))
			alone := batchOf(threeAnHour, []string{"a"}, ask(do(driver.Peek, 0, 0)))
			alone.Programs = nil
			s.applies(alone, 0)
			s.spent("a", a.Version, threeAnHour, a.At, 1)
		},
	},
	{
		Name:     "a reset deletes the record",
		Sentence: "A Reset deletes the record, unless another use denies its request; requests after it find no state.",
		check: func(s *subject) {
			s.applies(batchOf(threeAnHour, []string{"a", "b", "c"}, ask(allow(0, 3)), ask(allow(1, 3)), ask(allow(2, 3))), 1, 1, 1)
			b := batchOf(threeAnHour, []string{"a", "b", "c", "absent"},
				ask(do(driver.Reset, 0, 0)), ask(do(driver.Reset, 1, 0)), ask(allow(1, 2)),
				ask(allow(2, 1), do(driver.Reset, 1, 0)), ask(do(driver.Reset, 3, 0)))
			b.Now = s.Now().Round(0)
			s.applies(b, 0, 0, 1, 0, 0)
			s.lacks(key("a"))
			s.lacks(key("absent"))
			s.spent("b", b.Version, threeAnHour, b.Now, 2)
			s.applies(batchOf(threeAnHour, []string{"b"}, ask(do(driver.Reset, 0, 0))), 0)
			s.lacks(key("b"))
		},
	},
	{
		Name:     "refunds and charges are steps",
		Sentence: "A Refund gives its cost back, up to full, and a Charge takes its cost, into debt if need be.",
		check: func(s *subject) {
			now := s.Now().Round(0)
			at := func(b *driver.Batch) *driver.Batch { b.Now = now; return b }
			charge := at(batchOf(threeAnHour, []string{"a"}, ask(do(driver.Charge, 0, 5))))
			s.applies(charge, 1)
			debt, _, err := threeAnHour.Charge(nil, nil, now, 5)
			if err != nil {
				panic(err)
			}
			s.holds(key("a"), charge.Version, string(debt))
			s.applies(at(batchOf(threeAnHour, []string{"a"}, ask(allow(0, 1)))), 0)
			refund := at(batchOf(threeAnHour, []string{"a"}, ask(do(driver.Refund, 0, 3))))
			s.applies(refund, 1)
			less, _, err := threeAnHour.Refund(nil, debt, now, 3)
			if err != nil {
				panic(err)
			}
			s.holds(key("a"), refund.Version, string(less))
			s.applies(at(batchOf(threeAnHour, []string{"a"}, ask(allow(0, 1)), ask(allow(0, 1)))), 1, 0)
			full := at(batchOf(threeAnHour, []string{"a", "never seen"}, ask(do(driver.Refund, 0, 9)), ask(do(driver.Refund, 1, 1))))
			s.applies(full, 1, 1)
			s.lacks(key("a"))
			s.lacks(key("never seen"))
		},
	},
	{
		Name:     "a damaged state fails alone",
		Sentence: "A state that a program cannot read fails the requests that must obey it, and no other; a shadow use on it is left out.",
		check: func(s *subject) {
			damaged := s.put(key("damaged"), "not a state", 0)
			b := batchOf(threeAnHour, []string{"damaged", "a", "b"},
				ask(allow(0, 1)), ask(allow(1, 1), allow(0, 1)), ask(allow(1, 1)), ask(shadow(0, 1), allow(2, 1)),
				ask(do(driver.Refund, 0, 1)), ask(shadow(0, 1)), ask(do(driver.Peek, 0, 0), allow(2, 1)))
			b.Now = s.Now().Round(0)
			s.applies(b, driver.Damaged, driver.Damaged, 1, 1, driver.Damaged, 0, 1)
			s.holds(key("damaged"), damaged, "not a state")
			s.spent("a", b.Version, threeAnHour, b.Now, 1)
			s.spent("b", b.Version, threeAnHour, b.Now, 1, 1)
			s.applies(batchOf(threeAnHour, []string{"damaged"}, ask(allow(0, 1))), driver.Damaged)
			s.applies(batchOf(threeAnHour, []string{"damaged"}, ask(shadow(0, 1))), 0)
			reset := batchOf(threeAnHour, []string{"damaged"}, ask(do(driver.Reset, 0, 0)), ask(allow(0, 1)))
			s.applies(reset, 0, 1)
			s.spent("damaged", reset.Version, threeAnHour, reset.At, 1)
		},
	},
	{
		Name:     "a key that cannot be read fails alone",
		Sentence: "Requests on a key that the database cannot read fail and change nothing; the others of the batch are decided.",
		check: func(s *subject) {
			if s.Spoil == nil {
				return
			}
			s.Spoil(key("bad"))
			b := batchOf(threeAnHour, []string{"a", "bad", "b"},
				ask(allow(0, 1), allow(1, 1)), ask(allow(0, 1)), ask(allow(1, 1)), ask(allow(2, 3)), ask(shadow(1, 1), allow(2, 1)))
			b.Now = s.Now().Round(0)
			s.tryRun(b)
			if b.Err != nil || len(b.KeyErr) != 3 || b.KeyErr[0] != nil || !errors.Is(b.KeyErr[1], storage.ErrNotApplied) || b.KeyErr[2] != nil {
				s.fail("of three keys the second cannot be read: error %v, errors of keys %v", b.Err, b.KeyErr)
			}
			if got, want := appliedOf(b), []int{0, 1, 0, 1, 0}; !slices.Equal(got, want) {
				s.fail("of the requests %s, %v should be applied, %v is; key 1 cannot be read", showRequests(b), want, got)
			}
			s.spent("a", b.Version, threeAnHour, b.Now, 1)
			s.spent("b", b.Version, threeAnHour, b.Now, 3)
			alone := batchOf(threeAnHour, []string{"bad"}, ask(allow(0, 1)))
			s.tryRun(alone)
			if alone.Err != nil || len(alone.KeyErr) != 1 || !errors.Is(alone.KeyErr[0], storage.ErrNotApplied) {
				s.fail("the one key of a batch cannot be read: error %v, errors of keys %v", alone.Err, alone.KeyErr)
			}
		},
	},
	{
		Name:     "each batch succeeds or fails alone",
		Sentence: "Batches of one Run are all decided, and one that is refused leaves the others alone.",
		check: func(s *subject) {
			var batches []*driver.Batch
			for i := range 5 {
				batches = append(batches, batchOf(threeAnHour, []string{fmt.Sprint("key ", i)}, ask(allow(0, 2)), ask(allow(0, 2))))
			}
			batches[2].Keys = append(batches[2].Keys, batches[2].Keys[0])
			batches[3].Keys[0] = strings.Repeat("k", storage.MaxKey+1)
			s.tryRun(batches...)
			for i, b := range batches {
				want := [...]error{2: storage.ErrDuplicateKey, 3: storage.ErrKey, 4: nil}[i]
				if !errors.Is(b.Err, want) || b.Err != nil && !errors.Is(b.Err, storage.ErrNotApplied) {
					s.fail("batch %d: error %v, should be %v", i, b.Err, want)
				}
				if b.Err == nil {
					if got := appliedOf(b); !slices.Equal(got, []int{1, 0}) {
						s.fail("batch %d: %v is applied, should be [1 0]", i, got)
					}
					s.spent(fmt.Sprint("key ", i), b.Version, threeAnHour, b.At, 2)
				}
			}
			s.lacks(key("key 2"))
			s.Store.(driver.Server).Run(s.ctx)
		},
	},
	{
		Name:     "a batch that comes too late is not run",
		Sentence: "A batch whose context has ended before the call changes nothing, and its error says so.",
		check: func(s *subject) {
			late, cancel := context.WithDeadline(s.ctx, time.Unix(1, 0))
			defer cancel()
			b := batchOf(threeAnHour, []string{"a"}, ask(allow(0, 1)))
			s.Store.(driver.Server).Run(late, b)
			if !errors.Is(b.Err, context.DeadlineExceeded) || !errors.Is(b.Err, storage.ErrNotApplied) {
				s.fail("Run with a context that has ended: error %v", b.Err)
			}
			s.lacks(key("a"))
		},
	},
	{
		Name:     "batches are decided in one instant",
		Sentence: "However many batches run at once on the same keys, no more is allowed than the limits are.",
		check: func(s *subject) {
			const runners, times = 6, 10
			limit := fiftyAnHour
			now, allowed := s.Now().Round(0), make([]int, runners)
			s.together(runners, func(i int) {
				for range times {
					names := []string{"a", "b"}
					uses := []driver.Use{allow(0, 1), allow(1, 1)}
					if i%2 == 1 {
						slices.Reverse(names)
					}
					b := batchOf(limit, names, ask(uses...), ask(uses[i%2]))
					b.Now = now
					for _, applied := range s.run(b) {
						allowed[i] += applied
					}
				}
			})
			total := 0
			for _, n := range allowed {
				total += n
			}
			if left := s.left(limit, now, "a") + s.left(limit, now, "b"); total > 100 || int64(total)+left != 100 {
				s.fail("of two limits of 50 units, %d units were allowed, and %d are left", total, left)
			}
		},
	},
	{
		Name:     "a batch may have many keys",
		Sentence: "A batch of 1,500 keys and as many requests is decided like any other.",
		check: func(s *subject) {
			const n = 1500
			b := &driver.Batch{Version: storage.NewVersion(), Programs: []*algo.Program{&threeAnHour.program}}
			for i := range n {
				b.Keys = append(b.Keys, key(fmt.Sprint("many ", i)))
				b.Requests = append(b.Requests, ask(allow(i, int64(i%4)+1)))
			}
			for i, applied := range s.run(b) {
				if allowed := i%4 < 3; allowed != (applied == 1) {
					s.fail("request %d, for %d of 3 units: %d is applied", i, i%4+1, applied)
				}
			}
			s.spent("many 1498", b.Version, threeAnHour, b.At, 3)
		},
	},
	{
		Name:     "a server knows what it can run",
		Sentence: "Runs is true for the program of an algorithm, and false for one without a text.",
		check: func(s *subject) {
			server := s.Store.(driver.Server)
			for _, p := range portables {
				if !server.Runs(&p.program) {
					s.fail("Runs is false for the program of %s", p)
				}
			}
			for _, p := range []algo.Program{{}, {Name: "unknown"}, {Parts: []algo.Program{threeAnHour.program, {Name: "unknown"}}}} {
				if server.Runs(&p) {
					s.fail("Runs is true for a program without a text: %+v", p)
				}
			}
		},
	},
}

// left returns how many units of a key are left.
func (s *subject) left(p *portable, now time.Time, name string) int64 {
	r, err := p.Peek(s.get(key(name)).State, now, 1)
	if err != nil {
		s.fail("%q: %v", name, err)
	}
	return r.Remaining
}
