package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

func can[Ability any](store storage.Store) bool {
	_, ok := store.(Ability)
	return ok
}

var abilityLaws = []Law{
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
		Name:     "the server tells the time",
		Sentence: "LoadNow returns what Load returns, and the time of the server's clock during the call.",
		applies:  can[driver.ServerTime],
		check: func(s *subject) {
			clock := s.Store.(driver.ServerTime)
			off := s.Slack + time.Millisecond
			s.put(key("a"), "a", 0)
			s.put(key("empty"), "", time.Hour)
			for _, keys := range [][]string{{key("a")}, {key("empty"), key("absent"), key("a"), key("empty")}, {key("absent")}, {}} {
				want, err := s.Store.Load(s.ctx, keys...)
				if err != nil {
					s.fail("Load of %q: %v", keys, err)
				}
				earliest := s.Now().Add(-off)
				got, at, err := clock.LoadNow(s.ctx, keys...)
				latest := s.Now().Add(off)
				if err != nil || !slices.EqualFunc(got, want, same) {
					s.fail("LoadNow of %q: %v and error %v, should be %v", keys, got, err, want)
				}
				if at.Before(earliest) || at.After(latest) {
					s.fail("LoadNow returned the time %v, should be between %v and %v", at, earliest, latest)
				}
			}
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			if _, _, err := clock.LoadNow(ended, key("a")); !errors.Is(err, context.Canceled) {
				s.fail("LoadNow with a context that has ended: error %v", err)
			}
			if _, _, err := clock.LoadNow(s.ctx, strings.Repeat("x", storage.MaxKey+1)); !errors.Is(err, storage.ErrKey) {
				s.fail("LoadNow of a key that is too long: error %v", err)
			}
		},
	},
	{
		Name:     "records lapse by the decision's time",
		Sentence: "In an update a record lapses by the time that comes with the call, not by any clock.",
		applies:  can[driver.InPlace],
		check: func(s *subject) {
			const ttl = time.Hour
			for _, year := range []int{1, 1969, 2000, 2100, 2261, 9999} {
				written, k := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), key(fmt.Sprint("year ", year))
				update := func(now time.Time, want string) {
					err := s.Store.(driver.InPlace).Update(s.ctx, now, []string{k}, decider(func(found [][]byte, next []driver.Change) error {
						if string(found[0]) != want {
							s.fail("an update at %v finds %q, put at %v with a TTL of %v", now, found[0], written, ttl)
						}
						if now.Equal(written) {
							next[0] = putting("state", ttl)
						}
						return nil
					}))
					if err != nil {
						s.fail("Update at %v: %v", now, err)
					}
				}
				update(written, "")
				s.Advance(2 * ttl)
				update(written.Add(1), "state")
				update(written.Add(ttl-1), "state")
				if year > 1969 && year < 2262 { // before and after, time may stand still for a store
					update(written.Add(ttl+s.Slack), "")
				}
			}
		},
	},
}

// same reports whether two records are equal. The nil state is not equal to an empty one.
func same(a, b storage.Record) bool {
	return a.Version == b.Version && string(a.State) == string(b.State) && (a.State == nil) == (b.State == nil)
}
