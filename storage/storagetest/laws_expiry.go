package storagetest

import (
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice/storage"
)

const year = 365 * 24 * time.Hour

var expiryLaws = []Law{
	{
		Name:     "no record expires before its TTL",
		Sentence: "A record exists until its TTL has passed, however short or long it is: a store never rounds a TTL down.",
		check: func(s *subject) {
			for _, c := range []struct{ ttl, passed time.Duration }{
				{999 * time.Millisecond, 0},
				{1999 * time.Millisecond, time.Second},
				{time.Hour + 999*time.Millisecond, time.Hour},
				{time.Hour + 999*time.Microsecond + 999, time.Hour},
				{48 * time.Hour, 48*time.Hour - time.Minute},
				{100 * year, 100*year - time.Minute},
				{math.MaxInt64, 10 * year},
			} {
				s.outlasts(c.ttl, c.passed)
			}
			for _, short := range []time.Duration{1, time.Microsecond, time.Millisecond - 1} {
				s.put(key(fmt.Sprint("short ", short)), "x", short) // may expire at once, but must be valid
			}
		},
	},
	{
		Name:     "a record without a TTL never expires",
		Sentence: "A store keeps a record with the TTL 0 for ever.",
		check: func(s *subject) {
			version := s.put(key("k"), "state", 0)
			s.Advance(100 * year)
			s.holds(key("k"), version, "state")
		},
	},
	{
		Name:     "an expired key is absent",
		Sentence: "When its TTL and the harness's Slack have passed, a record is absent for Load and CompareAndSwap.",
		check: func(s *subject) {
			const ttl = time.Hour
			loaded, conflicting, created, replaced, deleted := key("loaded"), key("conflicting"), key("created"), key("replaced"), key("deleted")
			versions := map[string]storage.Version{}
			for _, k := range []string{loaded, conflicting, created, replaced, deleted} {
				versions[k] = s.put(k, "state", ttl)
			}
			s.Advance(ttl + s.Slack)
			s.lacks(loaded)
			if current, _ := s.try(writing(conflicting, storage.NewVersion(), "x", 0)); len(current) == 1 && !absent(current[0]) {
				s.fail("a conflict returned an expired record: %s", show(current[0]))
			}
			again := writing(created, 0, "again", 0)
			s.swap(again)
			s.holds(created, again.New.Version, "again")
			for _, stale := range []storage.Swap{writing(replaced, versions[replaced], "x", 0), deleting(deleted, versions[deleted])} {
				if _, ok := s.try(stale); ok {
					s.fail("a swap from the version of the expired record %q applied", stale.Key)
				}
			}
		},
	},
	{
		Name:     "a swap replaces the TTL",
		Sentence: "A swap that applies replaces TTL and Until. The new TTL may be longer, shorter or 0.",
		check: func(s *subject) {
			const ttl, long = time.Hour, 48 * time.Hour
			for _, c := range []struct {
				name     string
				from, to time.Duration
			}{{"longer", ttl, long}, {"shorter", long, ttl}, {"to no TTL", ttl, 0}, {"from no TTL", 0, ttl}} {
				s.swap(writing(key(c.name), s.put(key(c.name), "before", c.from), "after", c.to))
			}
			before := until(writing(key("without Until"), 0, "before", ttl), s.Now().Add(long))
			s.swap(before)
			s.swap(writing(before.Key, before.New.Version, "after", ttl))
			s.Advance(ttl + s.Slack)
			s.present("longer", "to no TTL")
			s.expired("shorter", "from no TTL", "without Until")
		},
	},
	{
		Name:     "each key has its own TTL",
		Sentence: "Each record of a CompareAndSwap with several keys is kept for its own TTL.",
		check: func(s *subject) {
			const ttl, long = time.Hour, 48 * time.Hour
			s.swap(writing(key("long"), 0, "state", long), writing(key("short"), 0, "state", ttl), writing(key("none"), 0, "state", 0),
				writing(key("long too"), 0, "state", long), writing(key("short too"), 0, "state", ttl))
			s.Advance(ttl + s.Slack)
			s.present("long", "none", "long too")
			s.expired("short", "short too")
		},
	},
	{
		Name:     "a record is kept until Until",
		Sentence: "If Until is after the end of the TTL, a record exists until the store's clock has passed Until.",
		check: func(s *subject) {
			const ttl, lead = time.Hour, 48 * time.Hour
			now := s.Now().Round(0)
			ends := []time.Time{now.Add(lead), now.Add(lead + time.Microsecond), now.Add(100 * year)}
			for _, year := range []int{2200, 2255, 2256, 2300, 9999, 300_000, 1_000_000_000} {
				ends = append(ends, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC))
			}
			var swaps []storage.Swap
			var names []string
			for i, end := range ends {
				names = append(names, fmt.Sprint("until ", end))
				swaps = append(swaps, until(writing(key(names[i]), 0, "state", ttl), end))
			}
			s.swap(swaps...) // together, because each key has its own Until
			s.swap(until(writing(key("single"), 0, "state", ttl), now.Add(lead)))
			s.swap(until(writing(key("replaced"), s.put(key("replaced"), "before", ttl), "state", ttl), now.Add(lead)))

			s.Advance(lead - time.Minute)
			s.present(append(names, "single", "replaced")...)
			s.Advance(time.Minute + s.Slack)
			s.expired("single", "replaced")
		},
	},
	{
		Name:     "an early Until does not change the TTL",
		Sentence: "If Until is past or before the end of the TTL, a record is kept for its TTL, or for ever if the TTL is 0.",
		check: func(s *subject) {
			const ttl = time.Hour
			now := s.Now().Round(0)
			ends := []time.Time{{}, now.Add(-ttl), now, now.Add(ttl / 2), time.Unix(0, 0), time.Unix(0, 1)}
			for _, year := range []int{-1_000_000_000, -300_000, 1, 1600, 1969} {
				ends = append(ends, time.Date(year, 12, 31, 23, 59, 59, 999_999_999, time.UTC))
			}
			var swaps, swapsForEver []storage.Swap
			var withTTL, forEver []string
			for i, end := range ends {
				withTTL, forEver = append(withTTL, fmt.Sprint("with a TTL, until ", end)), append(forEver, fmt.Sprint("for ever, until ", end))
				swaps = append(swaps, until(writing(key(withTTL[i]), 0, "state", ttl), end))
				swapsForEver = append(swapsForEver, until(writing(key(forEver[i]), 0, "state", 0), end))
			}
			forEver = append(forEver, "for ever, later Until")
			s.swap(swaps...)
			s.swap(append(swapsForEver, until(writing(key("for ever, later Until"), 0, "state", 0), now.Add(2*ttl)))...)

			s.Advance(ttl - time.Minute)
			s.present(withTTL...)
			s.Advance(time.Minute + s.Slack)
			s.expired(withTTL...)
			s.Advance(2 * ttl)
			s.present(forEver...)
		},
	},
}

// outlasts requires that a record with this TTL exists after passed. The server's clock advances
// meanwhile, so a trial that took longer than the rest of the TTL proves nothing.
func (s *subject) outlasts(ttl, passed time.Duration) {
	const trials = 10
	for i := range trials {
		start, k := time.Now(), key(fmt.Sprint("TTL ", ttl, i))
		s.put(k, "state", ttl)
		s.Advance(passed)
		if !absent(s.get(k)) {
			return
		}
		if time.Since(start) < ttl-passed {
			s.fail("a record with a TTL of %v was absent after %v", ttl, passed)
		}
	}
	if ttl-passed >= time.Millisecond { // shorter times can be tested only with a clock that stands still
		s.fail("the store is too slow for this check: each of %d times, a put and a get took more than %v", trials, ttl-passed)
	}
}

// until returns swap with an Until.
func until(swap storage.Swap, end time.Time) storage.Swap {
	swap.Until = end
	return swap
}
