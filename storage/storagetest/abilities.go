package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage"
)

func can[Ability any](store storage.Store) bool {
	_, ok := store.(Ability)
	return ok
}

var abilityLaws = []Law{
	{
		Name:     "a batch is many swaps",
		Sentence: "Each group of a batch gets, in order, the answer it would have got alone.",
		applies:  can[storage.Batcher],
		check: func(s *subject) {
			batcher := s.Store.(storage.Batcher)
			there := s.put(key("there"), "state", 0)
			groups := [][]storage.Swap{
				{writing(key("there"), storage.NewVersion(), "x", 0), writing(key("beside"), 0, "x", 0)},
				{writing(key("a"), 0, "a", 0)},
				{},
				{writing(key("bad"), 0, "x", -1)},
				{writing(key("c"), 0, "c", 0), writing(key("b"), 0, "b", 0)},
			}
			for i := range 300 { // more than the engine sends
				groups = append(groups, []storage.Swap{writing(key(fmt.Sprint("many ", i)), storage.Version(i%2), "many", 0)})
			}
			outcomes := batcher.CompareAndSwapBatch(s.ctx, groups...)
			if len(outcomes) != len(groups) {
				s.fail("%d outcomes for %d groups", len(outcomes), len(groups))
			}
			for i, o := range outcomes {
				refused, stale := i == 3, i == 0 || i >= 5 && (i-5)%2 == 1
				if refused != errors.Is(o.Err, storage.ErrSwap) || refused != (o.Err != nil) || o.Swapped != (!stale && !refused) {
					s.fail("group %d of %s: swapped %v, error %v", i, keysOf(groups[i]), o.Swapped, o.Err)
				}
				for _, swap := range groups[i] {
					if o.Swapped {
						s.holds(swap.Key, swap.New.Version, string(swap.New.State))
					} else if swap.Key != key("there") {
						s.lacks(swap.Key)
					}
				}
			}
			s.holds(key("there"), there, "state")
			if c := outcomes[0].Current; len(c) != 2 || c[0].Version != there || string(c[0].State) != "state" || !absent(c[1]) {
				s.fail("the refused group was told %v", c)
			}
		},
	},
	{
		Name:     "a batch names no key twice",
		Sentence: "A batch with a key in two groups is refused whole with ErrDuplicateKey, and writes nothing.",
		applies:  can[storage.Batcher],
		check: func(s *subject) {
			groups := [][]storage.Swap{{writing(key("a"), 0, "x", 0)}, {writing(key("b"), 0, "x", 0)}, {writing(key("a"), 0, "x", 0)}}
			for i, o := range s.Store.(storage.Batcher).CompareAndSwapBatch(s.ctx, groups...) {
				if !errors.Is(o.Err, storage.ErrDuplicateKey) || o.Swapped {
					s.fail("group %d: swapped %v, error %v", i, o.Swapped, o.Err)
				}
			}
			s.lacks(key("a"))
			s.lacks(key("b"))
		},
	},
	{
		Name:     "overlapping batches never deadlock",
		Sentence: "Batches with the same keys in opposite orders all end, without an error.",
		applies:  can[storage.Batcher],
		check: func(s *subject) {
			const batchers, times = 6, 20
			keys := []string{key("a"), key("b"), key("c")}
			for _, k := range keys {
				s.put(k, "0", 0)
			}
			s.together(batchers, func(i int) {
				for range times {
					var groups [][]storage.Swap
					for _, k := range keys {
						groups = append(groups, []storage.Swap{writing(k, s.get(k).Version, "x", 0)})
					}
					if i%2 == 1 {
						slices.Reverse(groups)
					}
					for _, o := range s.Store.(storage.Batcher).CompareAndSwapBatch(s.ctx, groups...) {
						if o.Err != nil {
							s.fail("a group of a batch, while others swap the same in another order: %v", o.Err)
						}
					}
				}
			})
		},
	},
	{
		Name:     "a series is calls",
		Sentence: "Each call of a series gets the answer it would have got alone, and so do those beside it.",
		applies:  can[storage.Series],
		check: func(s *subject) {
			calls, end := s.Store.(storage.Series).Series(s.ctx)
			within := *s
			within.ctx = calls
			a := within.put(key("a"), "in a series", 0)
			s.holds(key("a"), a, "in a series")
			within.holds(key("a"), a, "in a series")
			beside := writing(key("a"), a, "beside it", 0)
			s.swap(beside)
			within.holds(key("a"), beside.New.Version, "beside it")
			if current, swapped := within.try(writing(key("a"), a, "x", 0)); swapped || len(current) != 1 || current[0].Version != beside.New.Version {
				s.fail("what was swapped beside the series was swapped again in it: %v, told %v", swapped, current)
			}
			ended, cancel := context.WithCancel(calls)
			cancel()
			for name, ctx := range map[string]context.Context{"bad": calls, "late": ended} {
				swap := writing(key(name), 0, "x", 0)
				if name == "bad" {
					swap.TTL = -1
				}
				if _, swapped, err := s.Store.CompareAndSwap(ctx, swap); swapped || err == nil || !errors.Is(err, storage.ErrNotApplied) {
					s.fail("a %s call of a series: swapped %v, error %v", name, swapped, err)
				}
				s.lacks(swap.Key)
			}
			other, endOther := s.Store.(storage.Series).Series(s.ctx)
			second := *s
			second.ctx = other
			second.put(key("b"), "in another", 0)
			if batcher, ok := s.Store.(storage.Batcher); ok {
				c := writing(key("c"), 0, "in a batch", 0)
				for i, o := range batcher.CompareAndSwapBatch(calls, []storage.Swap{c}, []storage.Swap{writing(key("b"), 0, "x", 0)}) {
					if o.Err != nil || o.Swapped != (i == 0) {
						s.fail("group %d of a batch of a series: swapped %v, error %v", i, o.Swapped, o.Err)
					}
				}
				s.holds(key("c"), c.New.Version, "in a batch")
			}
			within.swap(writing(key("a"), beside.New.Version, "the last", 0))
			endOther()
			end()
			s.swap(deleting(key("a"), s.get(key("a")).Version))
			s.lacks(key("a"))
		},
	},
	{
		Name:     "the server's clock runs on",
		Sentence: "The store's clock tells a time that does not step back between readings, and heeds its context.",
		applies:  can[storage.Clock],
		check: func(s *subject) {
			clock := s.Store.(storage.Clock)
			var last time.Time
			for range 5 {
				now, err := clock.Now(s.ctx)
				if err != nil || now.IsZero() || now.Before(last) {
					s.fail("Now: %v after %v, error %v", now, last, err)
				}
				last = now
			}
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			if _, err := clock.Now(ended); !errors.Is(err, context.Canceled) {
				s.fail("Now with a context that has ended: error %v", err)
			}
		},
	},
	{
		Name:     "a purge takes only what has expired",
		Sentence: "Purge removes every record whose last TTL has passed, at most max a call, and no other.",
		applies:  can[storage.Purger],
		check: func(s *subject) {
			const ttl, long, max = time.Hour, 3 * time.Hour, 2
			versions := map[string]storage.Version{}
			write := func(name string, ttls ...time.Duration) {
				for _, each := range ttls {
					swap := writing(key(name), versions[name], "state", each)
					s.swap(swap)
					versions[name] = swap.New.Version
				}
			}
			purge := func(expired int, live ...string) {
				for total := 0; ; {
					n, err := s.Store.(storage.Purger).Purge(s.ctx, max)
					if total += n; err != nil || n < 0 || n > max || total > expired {
						s.fail("Purge(%d) removed %d, %d in all, of %d expired; error %v", max, n, total, expired, err)
					}
					if n < max && total < expired {
						s.fail("Purge(%d) removed %d, as if there were no more, but only %d in all, of %d expired", max, n, total, expired)
					}
					if n < max {
						break
					}
				}
				for _, name := range live {
					s.holds(key(name), versions[name], "state")
				}
			}
			for i := range 5 {
				write(fmt.Sprint("expired ", i), ttl)
			}
			write("same", ttl, ttl)
			write("shorter", long, ttl)
			write("once for ever", 0, ttl)
			write("longer", ttl, long)
			write("long", long)
			write("no longer", ttl, 0)
			write("for ever", 0)
			s.put(key("written again"), "x", ttl)
			s.putIn(s.Other, key("of the other"), "x", ttl)
			s.Advance(ttl + s.Slack)
			write("written again", long)
			purge(8, "longer", "long", "no longer", "for ever", "written again")
			s.Advance(long + s.Slack)
			purge(3, "no longer", "for ever")
			write("no longer", ttl)
			s.Advance(ttl + s.Slack)
			purge(1, "for ever")
		},
	},
	{
		Name:     "a purge of nothing removes nothing",
		Sentence: "Purge removes nothing when its context has ended, and says so, nor when max is 0 or negative.",
		applies:  can[storage.Purger],
		check: func(s *subject) {
			purger := s.Store.(storage.Purger)
			s.put(key("k"), "x", time.Hour)
			s.Advance(time.Hour + s.Slack)
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			if n, err := purger.Purge(ended, 1); n != 0 || !errors.Is(err, context.Canceled) {
				s.fail("with a context that has ended Purge removed %d, error %v", n, err)
			}
			for _, max := range []int{0, -1, math.MinInt} {
				if n, err := purger.Purge(s.ctx, max); n != 0 || err != nil {
					s.fail("Purge(%d) removed %d, error %v", max, n, err)
				}
			}
		},
	},
	{
		Name:     "records lapse by the decision's time",
		Sentence: "In a timed store a record lapses by the time that comes with the call, not by any clock.",
		applies:  can[storage.Timed],
		check: func(s *subject) {
			timed := s.Store.(storage.Timed)
			const ttl = time.Hour
			for _, year := range []int{1, 1969, 2000, 2100, 2261, 9999} {
				t := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
				k, create := key(fmt.Sprint("year ", year)), writing(key(fmt.Sprint("year ", year)), 0, "state", ttl)
				swapAt := func(now time.Time, swap storage.Swap, want bool) {
					if _, swapped, err := timed.CompareAndSwapAt(s.ctx, now, swap); swapped != want || err != nil {
						s.fail("CompareAndSwapAt %v, written at %v with a TTL of %v: swapped %v, error %v", now, t, ttl, swapped, err)
					}
				}
				thereAt := func(now time.Time, want bool) {
					if records, err := timed.LoadAt(s.ctx, now, k); err != nil || len(records) != 1 || absent(records[0]) == want {
						s.fail("LoadAt %v, written at %v with a TTL of %v: %v, error %v", now, t, ttl, records, err)
					}
				}
				swapAt(t, create, true)
				thereAt(t, true)
				thereAt(t.Add(ttl-1), true)
				swapAt(t.Add(ttl-1), writing(k, 0, "x", 1), false)
				if year > 1969 && year < 2262 { // before and after, time may stand still for a store
					thereAt(t.Add(ttl+s.Slack), false)
					swapAt(t.Add(ttl+s.Slack), writing(k, 0, "x", ttl), true)
				}
			}
		},
	},
}
