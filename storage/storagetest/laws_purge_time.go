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

var purgeAndTimeLaws = []Law{
	{
		Name:     "a purge removes only expired records",
		Sentence: "Purge removes the records whose last TTL has passed, at most max in each call, and no others.",
		applies:  implements[storage.Purger],
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
						s.fail("Purge(%d) removed %d records, in all %d of %d expired ones; error %v", max, n, total, expired, err)
					}
					if n < max && total < expired {
						s.fail("Purge(%d) removed only %d records, but in all only %d of %d expired ones", max, n, total, expired)
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
		Name:     "a cancelled or empty purge removes nothing",
		Sentence: "If its context has ended, Purge removes nothing and returns an error. If max is 0 or negative, it removes nothing.",
		applies:  implements[storage.Purger],
		check: func(s *subject) {
			purger := s.Store.(storage.Purger)
			s.put(key("k"), "x", time.Hour)
			s.Advance(time.Hour + s.Slack)
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			if n, err := purger.Purge(ended, 1); n != 0 || !errors.Is(err, context.Canceled) {
				s.fail("Purge with an ended context removed %d records, error %v", n, err)
			}
			for _, max := range []int{0, -1, math.MinInt} {
				if n, err := purger.Purge(s.ctx, max); n != 0 || err != nil {
					s.fail("Purge(%d) removed %d records, error %v", max, n, err)
				}
			}
		},
	},
	{
		Name:     "LoadNow returns the server's time",
		Sentence: "LoadNow returns the records that Load returns, and the time of the server during the call.",
		applies:  implements[driver.ServerTime],
		check: func(s *subject) {
			clock := s.Store.(driver.ServerTime)
			tolerance := s.Slack + time.Millisecond
			s.put(key("a"), "a", 0)
			s.put(key("empty"), "", time.Hour)
			for _, keys := range [][]string{{key("a")}, {key("empty"), key("absent"), key("a"), key("empty")}, {key("absent")}, {}} {
				want := s.load(s.Store, keys...)
				earliest := s.Now().Add(-tolerance)
				got, at, err := clock.LoadNow(s.ctx, keys...)
				latest := s.Now().Add(tolerance)
				if err != nil || !slices.EqualFunc(got, want, func(a, b storage.Record) bool { return equal(a, b) && (a.State == nil) == (b.State == nil) }) {
					s.fail("LoadNow of %q returned %v and the error %v, want %v", keys, got, err, want)
				}
				if at.Before(earliest) || at.After(latest) {
					s.fail("LoadNow returned the time %v, want a time between %v and %v", at, earliest, latest)
				}
			}
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			if _, _, err := clock.LoadNow(ended, key("a")); !errors.Is(err, context.Canceled) {
				s.fail("LoadNow with an ended context returned the error %v", err)
			}
			if _, _, err := clock.LoadNow(s.ctx, strings.Repeat("x", storage.MaxKey+1)); !errors.Is(err, storage.ErrKey) {
				s.fail("LoadNow of a key that is too long returned the error %v", err)
			}
		},
	},
	{
		Name:     "updates use their own time",
		Sentence: "In an update, records expire by the time argument of the call, not by any clock.",
		applies:  implements[driver.InPlace],
		check: func(s *subject) {
			const ttl = time.Hour
			for _, year := range []int{1, 1969, 2000, 2100, 2261, 9999} {
				written, k := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), key(fmt.Sprint("year ", year))
				update := func(now time.Time, want string) {
					err := s.Store.(driver.InPlace).Update(s.ctx, now, []string{k}, decider(func(found [][]byte, next []driver.Change) error {
						if string(found[0]) != want {
							s.fail("an update at %v found the state %q of a record that was put at %v with a TTL of %v", now, found[0], written, ttl)
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
				if year > 1969 && year < 2262 { // a store may treat all earlier times, and all later times, as equal
					update(written.Add(ttl+s.Slack), "")
				}
			}
		},
	},
}
