package storagetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// batchOf returns a batch of requests on the keys with these names. It sets the program of their uses.
func batchOf(p *algo.Program, names []string, requests ...driver.Request) *driver.Batch {
	for i := range requests {
		for j := range requests[i].Uses {
			requests[i].Uses[j].Program = p
		}
	}
	return &driver.Batch{Version: storage.NewVersion(), Keys: keys(names...), Requests: requests}
}

// taking returns a batch whose requests each take cost units of one of the keys with these names.
func taking(p *algo.Program, cost int64, names ...string) *driver.Batch {
	var requests []driver.Request
	for i := range names {
		requests = append(requests, request(allow(i, cost)))
	}
	return batchOf(p, names, requests...)
}

// at returns b with a time.
func at(now time.Time, b *driver.Batch) *driver.Batch {
	b.Now = now
	return b
}

// request returns a request with one or more uses.
func request(uses ...driver.Use) driver.Request { return driver.Request{Times: 1, Uses: uses} }

// allow returns a use that takes cost units of the key with that index.
func allow(key int, cost int64) driver.Use { return driver.Use{Key: key, Cost: cost} }

// tryRun runs batches. It retries after ErrContended.
func (s *subject) tryRun(batches ...*driver.Batch) {
	done := func(b *driver.Batch) bool { return !errors.Is(b.Err, storage.ErrContended) || s.ctx.Err() != nil }
	for batches = slices.Clone(batches); len(batches) > 0; batches = slices.DeleteFunc(batches, done) {
		s.Store.(driver.Server).Run(s.ctx, batches...)
	}
}

// run runs a batch that must succeed.
func (s *subject) run(b *driver.Batch) {
	s.tryRun(b)
	if err := cmp.Or(b.Err, errors.Join(b.KeyErr...)); err != nil || len(b.Found) != len(b.Keys) {
		s.fail("Run of a batch with %d keys from %.40q found %d records, error %v", len(b.Keys), b.Keys[0], len(b.Found), err)
	}
}

// applies runs a batch whose requests must have these values of Applied.
func (s *subject) applies(b *driver.Batch, want ...int) {
	s.run(b)
	s.hasApplied(b, want...)
}

func (s *subject) hasApplied(b *driver.Batch, want ...int) {
	if got := appliedOf(b); !slices.Equal(got, want) {
		s.fail("the requests %+v at %v on %v have Applied %v, want %v", b.Requests, b.At, b.Found, got, want)
	}
}

func appliedOf(b *driver.Batch) (applied []int) {
	for i := range b.Requests {
		applied = append(applied, b.Requests[i].Applied)
	}
	return applied
}

// spent requires that the keys with these names have the state after a batch took cost units of them.
func (s *subject) spent(b *driver.Batch, p *algo.Program, cost int64, names ...string) {
	for _, name := range names {
		s.holds(key(name), b.Version, stateAfter(p, b.At, cost))
	}
}

var serverLaws = []Law{
	law("a key that cannot be read fails alone",
		"If the database cannot read a key, the requests on it fail and change nothing. The other requests of the batch are "+
			"decided.", func(s *subject) {
			if s.Spoil == nil {
				return
			}
			s.Spoil(key("bad"))
			fails := func(b *driver.Batch, bad int, want ...int) {
				s.tryRun(b)
				wrong := b.Err != nil || len(b.KeyErr) != len(b.Keys)
				for i, err := range b.KeyErr {
					wrong = wrong || (err != nil) != (i == bad) || err != nil && !errors.Is(err, storage.ErrNotApplied)
				}
				if wrong {
					s.fail("key %d of %q cannot be read, and Run returned the error %v and the errors of keys %v", bad, b.Keys, b.Err, b.KeyErr)
				}
				s.hasApplied(b, want...)
			}
			shadow := driver.Use{Key: 1, Cost: 1, Shadow: true}
			b := at(s.Now().Round(0), batchOf(threeAnHour, []string{"a", "bad", "b"}, request(allow(0, 1), allow(1, 1)),
				request(allow(0, 1)), request(allow(1, 1)), request(allow(2, 3)), request(shadow, allow(2, 1))))
			fails(b, 1, 0, 1, 0, 1, 0)
			s.spent(b, threeAnHour, 1, "a")
			s.spent(b, threeAnHour, 3, "b")
			fails(taking(threeAnHour, 1, "bad"), 0, 0)
		}),
	law("each batch succeeds or fails alone",
		"Run decides all its batches. A batch that is refused does not affect the others.", func(s *subject) {
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
					s.hasApplied(b, 1, 0)
					s.spent(b, threeAnHour, 2, fmt.Sprint("key ", i))
				}
			}
			s.lacks(key("key 2"))
			s.Store.(driver.Server).Run(s.ctx)
		}),
	law("concurrent batches do not exceed a limit",
		"If many batches with the same keys run concurrently, they are allowed exactly the limit.", func(s *subject) {
			const runners, times = 6, 10
			var allowed atomic.Int64
			now := s.Now().Round(0)
			s.concurrently(runners, func(i int) {
				names := []string{"a", "b"}
				if i%2 == 1 {
					slices.Reverse(names)
				}
				for range times {
					b := at(now, batchOf(fiftyAnHour, names, request(allow(0, 1), allow(1, 1)), request(allow(i%2, 1))))
					s.run(b)
					allowed.Add(int64(b.Requests[0].Applied + b.Requests[1].Applied))
				}
			})
			remaining := int64(0)
			for _, record := range s.load(keys("a", "b")...) {
				r, err := policies[fiftyAnHour].Peek(record.State, now, 1)
				if err != nil {
					s.fail("%v: %s", err, show(record))
				}
				remaining += r.Remaining
			}
			if total := allowed.Load(); total > 100 || total+remaining != 100 {
				s.fail("with two limits of 50 units, %d units were allowed and %d remain", total, remaining)
			}
		}),
	law("a batch may have many keys",
		"A batch may have 1,500 keys and as many requests. A request may stand for a thousand equal ones.", func(s *subject) {
			const n = 1500
			var names []string
			var requests []driver.Request
			for i := range n {
				names = append(names, fmt.Sprint("many ", i))
				requests = append(requests, request(allow(i, int64(i%4)+1)))
			}
			b := batchOf(threeAnHour, names, requests...)
			s.run(b)
			for i, applied := range appliedOf(b) {
				if allowed := i%4 < 3; allowed != (applied == 1) {
					s.fail("request %d, for %d of 3 units, has Applied %d", i, i%4+1, applied)
				}
			}
			s.spent(b, threeAnHour, 3, "many 1498")
			s.applies(batchOf(thousandAnHour, []string{"many times"}, driver.Request{Times: 1001, Uses: []driver.Use{allow(0, 1)}}), 1000)
		}),
	law("Runs reports which programs the server can run",
		"Runs returns true for the programs of the algorithms and for stacks of them, and false for a program without code.", func(s *subject) {
			server := s.Store.(driver.Server)
			for p, policy := range policies {
				if !server.Runs(p) {
					s.fail("Runs returned false for the program of %s", policy)
				}
			}
			for _, p := range []algo.Program{{}, {Name: "unknown"}, {Parts: []algo.Program{*threeAnHour, {Name: "unknown"}}}} {
				if server.Runs(&p) {
					s.fail("Runs returned true for a program without code: %+v", p)
				}
			}
		}),
	law("a batch sets TTLs",
		"A record that a batch writes exists until the TTL of the last step that changed it and the Margin have passed. They count "+
			"from the time of the batch or the time of the server, whichever is later.", func(s *subject) {
			const lead, margin = 48 * time.Hour, 2 * time.Hour
			now := s.Now().Round(0)
			s.applies(batchOf(tenAnHour, []string{"6m", "1h", "twice"}, request(allow(0, 1)), request(allow(1, 10)),
				request(allow(2, 1)), request(allow(2, 9)), request(allow(2, 1))), 1, 1, 1, 1, 0)
			s.applies(taking(tenAnHour, 1, "again"), 1)
			s.applies(taking(tenAnHour, 9, "again"), 1)
			s.applies(at(now.Add(lead), batchOf(tenAnHour, []string{"ahead", "ahead too"}, request(allow(0, 10)), request(allow(1, 1)))), 1, 1)
			s.applies(at(now.Add(lead), taking(tenAnHour, 10, "alone")), 1)
			s.applies(at(now.Add(-lead), taking(tenAnHour, 10, "behind")), 1)
			s.applies(at(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), taking(tenAnHour, 10, "far")), 1)
			for _, b := range []*driver.Batch{
				taking(tenAnHour, 10, "margin", "margin too"), taking(tenAnHour, 10, "margin alone"), at(now, taking(tenAnHour, 10, "margin, given")),
			} {
				b.Margin = margin
				s.run(b)
			}
			const later = time.Hour + margin
			s.last(lifetimes{
				"6m": 6 * time.Minute, "1h": time.Hour, "twice": time.Hour, "again": time.Hour,
				"behind": time.Hour, "ahead": lead + time.Hour, "ahead too": lead + 6*time.Minute, "alone": lead + time.Hour, "far": 0,
				"margin": later, "margin too": later, "margin alone": later, "margin, given": later,
			})
			s.Advance(10 * year)
			s.last(lifetimes{"far": 0})
		}),
	law("a denial writes nothing",
		"Requests that change nothing do not change the version and the TTL of the record. Found has what is left of the TTL for each key of a "+
			"denied request.", func(s *subject) {
			const passed, left = 15 * time.Minute, 45 * time.Minute
			full := taking(threeAnHour, 3, "a", "b")
			s.applies(full, 1, 1)
			s.put(key("for ever"), "", 0)
			s.Advance(passed)
			for _, b := range []*driver.Batch{taking(threeAnHour, 3, "a"), taking(threeAnHour, 3, "a", "b"),
				batchOf(threeAnHour, []string{"a", "b"}, request(allow(0, 3), allow(1, 3))),
				batchOf(threeAnHour, []string{"a", "b"}, request(allow(1, 3)), request(allow(0, 3))),
			} {
				b.Margin = time.Hour
				s.applies(b, make([]int, len(b.Requests))...)
				for i, found := range b.Found {
					s.keeps(fmt.Sprintf("the record of %q in a batch of %d requests", b.Keys[i], len(b.Requests)), found, left)
				}
			}
			others := batchOf(threeAnHour, []string{"for ever", "absent"}, request(allow(0, 4), allow(1, 4)))
			s.applies(others, 0)
			s.keeps("a record without a TTL", others.Found[0], 0)
			s.keeps("an absent record", others.Found[1], 0)
			s.spent(full, threeAnHour, 3, "a", "b")
			s.last(lifetimes{"a": left, "b": left})
		}),
}
