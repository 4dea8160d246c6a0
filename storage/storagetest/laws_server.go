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

// batchOf returns a batch of requests on the keys with these names.
func batchOf(p *portable, names []string, requests ...driver.Request) *driver.Batch {
	b := &driver.Batch{Version: storage.NewVersion(), Programs: []*algo.Program{&p.program}, Requests: requests}
	for _, name := range names {
		b.Keys = append(b.Keys, key(name))
	}
	return b
}

// request returns a request with one or more uses.
func request(uses ...driver.Use) driver.Request { return driver.Request{Times: 1, Uses: uses} }

// allow returns a use that takes cost units of the key with that index.
func allow(key int, cost int64) driver.Use { return driver.Use{Key: key, Cost: cost} }

func shadow(key int, cost int64) driver.Use { return driver.Use{Key: key, Cost: cost, Shadow: true} }

func use(op driver.Op, key int, cost int64) driver.Use {
	return driver.Use{Op: op, Key: key, Cost: cost}
}

// tryRun runs batches. It retries after ErrContended.
func (s *subject) tryRun(batches ...*driver.Batch) {
	for len(batches) > 0 && s.ctx.Err() == nil {
		s.Store.(driver.Server).Run(s.ctx, batches...)
		batches = slices.DeleteFunc(slices.Clone(batches), func(b *driver.Batch) bool { return !errors.Is(b.Err, storage.ErrContended) })
	}
}

// run runs a batch that must succeed, and returns the Applied of each request.
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

// applies runs a batch whose requests must have these values of Applied.
func (s *subject) applies(b *driver.Batch, want ...int) {
	if got := s.run(b); !slices.Equal(got, want) {
		s.fail("the requests %s have Applied %v, want %v", showRequests(b), got, want)
	}
}

func showRequests(b *driver.Batch) string {
	names := [...]string{"allow", "refund", "charge", "peek", "reset"}
	var texts []string
	for _, r := range b.Requests[:min(len(b.Requests), 10)] {
		var uses []string
		for _, u := range r.Uses {
			kind := ""
			if u.Shadow {
				kind = "shadow "
			}
			uses = append(uses, fmt.Sprintf("%s%s %d of key %d", kind, names[u.Op], u.Cost, u.Key))
		}
		texts = append(texts, fmt.Sprintf("%d x (%s)", r.Times, strings.Join(uses, ", ")))
	}
	return strings.Join(texts, "; ")
}

// spent requires that a key has the state of p after these costs, all taken at one time.
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
		Name:     "the caller owns the records of a batch",
		Sentence: "The records that Run returns do not share memory with the store.",
		check: func(s *subject) {
			b := batchOf(tenAnHour, []string{"a"}, request(allow(0, 3)))
			s.applies(b, 1)
			peek := batchOf(tenAnHour, []string{"a"}, request(use(driver.Peek, 0, 0)))
			s.applies(peek, 0)
			spoil(peek.Found[0].State)
			s.spent("a", b.Version, tenAnHour, b.At, 3)
		},
	},
	{
		Name:     "a key that cannot be read fails alone",
		Sentence: "If the database cannot read a key, the requests on it fail and change nothing. The other requests of the batch are decided.",
		check: func(s *subject) {
			if s.Spoil == nil {
				return
			}
			s.Spoil(key("bad"))
			b := batchOf(threeAnHour, []string{"a", "bad", "b"},
				request(allow(0, 1), allow(1, 1)), request(allow(0, 1)), request(allow(1, 1)), request(allow(2, 3)), request(shadow(1, 1), allow(2, 1)))
			b.Now = s.Now().Round(0)
			s.tryRun(b)
			if b.Err != nil || len(b.KeyErr) != 3 || b.KeyErr[0] != nil || !errors.Is(b.KeyErr[1], storage.ErrNotApplied) || b.KeyErr[2] != nil {
				s.fail("the second of three keys cannot be read, and Run returned the error %v and the errors of keys %v", b.Err, b.KeyErr)
			}
			if got, want := appliedOf(b), []int{0, 1, 0, 1, 0}; !slices.Equal(got, want) {
				s.fail("key 1 cannot be read, and the requests %s have Applied %v, want %v", showRequests(b), got, want)
			}
			s.spent("a", b.Version, threeAnHour, b.Now, 1)
			s.spent("b", b.Version, threeAnHour, b.Now, 3)
			alone := batchOf(threeAnHour, []string{"bad"}, request(allow(0, 1)))
			s.tryRun(alone)
			if alone.Err != nil || len(alone.KeyErr) != 1 || !errors.Is(alone.KeyErr[0], storage.ErrNotApplied) {
				s.fail("the only key of a batch cannot be read, and Run returned the error %v and the errors of keys %v", alone.Err, alone.KeyErr)
			}
		},
	},
	{
		Name:     "each batch succeeds or fails alone",
		Sentence: "Run decides all its batches. A batch that is refused does not affect the others.",
		check: func(s *subject) {
			var batches []*driver.Batch
			for i := range 5 {
				batches = append(batches, batchOf(threeAnHour, []string{fmt.Sprint("key ", i)}, request(allow(0, 2)), request(allow(0, 2))))
			}
			batches[2].Keys = append(batches[2].Keys, batches[2].Keys[0])
			batches[3].Keys[0] = strings.Repeat("k", storage.MaxKey+1)
			s.tryRun(batches...)
			for i, b := range batches {
				want := [...]error{2: storage.ErrDuplicateKey, 3: storage.ErrKey, 4: nil}[i]
				if !errors.Is(b.Err, want) || b.Err != nil && !errors.Is(b.Err, storage.ErrNotApplied) {
					s.fail("batch %d has the error %v, want %v", i, b.Err, want)
				}
				if b.Err == nil {
					if got := appliedOf(b); !slices.Equal(got, []int{1, 0}) {
						s.fail("batch %d has Applied %v, want [1 0]", i, got)
					}
					s.spent(fmt.Sprint("key ", i), b.Version, threeAnHour, b.At, 2)
				}
			}
			s.lacks(key("key 2"))
			s.Store.(driver.Server).Run(s.ctx)
		},
	},
	{
		Name:     "a batch after its deadline is not run",
		Sentence: "If the context ended before the call, Run changes nothing. The error wraps the context's error and ErrNotApplied.",
		check: func(s *subject) {
			late, cancel := context.WithDeadline(s.ctx, time.Unix(1, 0))
			defer cancel()
			b := batchOf(threeAnHour, []string{"a"}, request(allow(0, 1)))
			s.Store.(driver.Server).Run(late, b)
			if !errors.Is(b.Err, context.DeadlineExceeded) || !errors.Is(b.Err, storage.ErrNotApplied) {
				s.fail("Run with an ended context returned the error %v", b.Err)
			}
			s.lacks(key("a"))
		},
	},
	{
		Name:     "concurrent batches do not exceed a limit",
		Sentence: "If many batches with the same keys run concurrently, they are allowed exactly the limit.",
		check: func(s *subject) {
			const runners, times = 6, 10
			limit := fiftyAnHour
			now, allowed := s.Now().Round(0), make([]int, runners)
			s.concurrently(runners, func(i int) {
				for range times {
					names := []string{"a", "b"}
					uses := []driver.Use{allow(0, 1), allow(1, 1)}
					if i%2 == 1 {
						slices.Reverse(names)
					}
					b := batchOf(limit, names, request(uses...), request(uses[i%2]))
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
			if remaining := s.remaining(limit, now, "a") + s.remaining(limit, now, "b"); total > 100 || int64(total)+remaining != 100 {
				s.fail("with two limits of 50 units, %d units were allowed and %d remain", total, remaining)
			}
		},
	},
	{
		Name:     "a batch may have many keys",
		Sentence: "A batch may have 1,500 keys and as many requests. A request may stand for a thousand equal ones.",
		check: func(s *subject) {
			const n = 1500
			b := &driver.Batch{Version: storage.NewVersion(), Programs: []*algo.Program{&threeAnHour.program}}
			for i := range n {
				b.Keys = append(b.Keys, key(fmt.Sprint("many ", i)))
				b.Requests = append(b.Requests, request(allow(i, int64(i%4)+1)))
			}
			for i, applied := range s.run(b) {
				if allowed := i%4 < 3; allowed != (applied == 1) {
					s.fail("request %d, for %d of 3 units, has Applied %d", i, i%4+1, applied)
				}
			}
			s.spent("many 1498", b.Version, threeAnHour, b.At, 3)
			s.applies(batchOf(thousandAnHour, []string{"many times"}, driver.Request{Times: 1001, Uses: []driver.Use{allow(0, 1)}}), 1000)
		},
	},
	{
		Name:     "Runs reports which programs the server can run",
		Sentence: "Runs returns true for the programs of the algorithms, and false for a program without code.",
		check: func(s *subject) {
			server := s.Store.(driver.Server)
			for _, p := range portables {
				if !server.Runs(&p.program) {
					s.fail("Runs returned false for the program of %s", p)
				}
			}
			for _, p := range []algo.Program{{}, {Name: "unknown"}, {Parts: []algo.Program{threeAnHour.program, {Name: "unknown"}}}} {
				if server.Runs(&p) {
					s.fail("Runs returned true for a program without code: %+v", p)
				}
			}
		},
	},
}

// remaining returns how many units of a key remain.
func (s *subject) remaining(p *portable, now time.Time, name string) int64 {
	r, err := p.Peek(s.get(key(name)).State, now, 1)
	if err != nil {
		s.fail("%q: %v", name, err)
	}
	return r.Remaining
}
