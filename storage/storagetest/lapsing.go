package storagetest

import (
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice/storage"
)

const year = 365 * 24 * time.Hour

var lapsingLaws = []Law{
	{
		Name:     "nothing vanishes before its TTL",
		Sentence: "A record is there until its TTL has passed, however short or long: a TTL is never rounded down.",
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
				s.put(key(fmt.Sprint("short ", short)), "x", short) // may be gone already, must be legal
			}
		},
	},
	{
		Name:     "zero TTL never expires",
		Sentence: "A record with a TTL of zero is kept for ever.",
		check: func(s *subject) {
			version := s.put(key("k"), "state", 0)
			s.Advance(100 * year)
			s.holds(key("k"), version, "state")
		},
	},
	{
		Name:     "an expired key is absent",
		Sentence: "Once its TTL and the harness's Slack have passed, a record is as if it had never been.",
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
				s.fail("an expired record was returned as current: %s", show(current[0]))
			}
			again := writing(created, 0, "again", 0)
			if _, ok := s.try(again); !ok {
				s.fail("a key whose record had expired could not be created")
			}
			s.holds(created, again.New.Version, "again")
			for _, stale := range []storage.Swap{writing(replaced, versions[replaced], "x", 0), deleting(deleted, versions[deleted])} {
				if _, ok := s.try(stale); ok {
					s.fail("a swap from the version of a record that had expired applied to %q", stale.Key)
				}
			}
		},
	},
	{
		Name:     "the winner sets the TTL",
		Sentence: "A swap that applies replaces the TTL, by a longer one, a shorter one, or none, and Until.",
		check: func(s *subject) {
			const ttl, long = time.Hour, 48 * time.Hour
			type change struct {
				name     string
				from, to time.Duration
			}
			for _, c := range []change{{"longer", ttl, long}, {"shorter", long, ttl}, {"none", ttl, 0}, {"one", 0, ttl}} {
				s.swap(writing(key(c.name), s.put(key(c.name), "before", c.from), "after", c.to))
			}
			needed := until(writing(key("without Until"), 0, "before", ttl), s.Now().Add(long))
			s.swap(needed)
			s.swap(writing(needed.Key, needed.New.Version, "after", ttl))
			s.put(key("control"), "x", ttl)
			s.Advance(ttl + s.Slack)
			for _, name := range []string{"longer", "none"} {
				if absent(s.get(key(name))) {
					s.fail("a record whose TTL was changed (%s) vanished with its old one", name)
				}
			}
			if !absent(s.get(key("control"))) {
				return // this store expires nothing; another law judges that
			}
			for _, name := range []string{"shorter", "one", "without Until"} {
				if !absent(s.get(key(name))) {
					s.fail("a record whose TTL was changed (%s) kept its old one", name)
				}
			}
		},
	},
	{
		Name:     "each key has its own TTL",
		Sentence: "Each record of a swap of several keys is kept for the TTL that came with it.",
		check: func(s *subject) {
			const ttl, long = time.Hour, 48 * time.Hour
			ttls := []time.Duration{long, ttl, 0, long, ttl}
			swaps := make([]storage.Swap, len(ttls))
			for i, ttl := range ttls {
				swaps[i] = writing(key(fmt.Sprint(i)), 0, "state", ttl)
			}
			s.swap(swaps...)
			s.put(key("control"), "x", ttl)
			s.Advance(ttl + s.Slack)
			lapses := absent(s.get(key("control"))) // or this store expires nothing; another law judges that
			for i, swap := range swaps {
				if gone, due := absent(s.get(swap.Key)), ttls[i] == ttl; gone && !due || !gone && due && lapses {
					s.fail("of records with TTLs of %v, that of %v is gone after %v: %v", ttls, ttls[i], ttl, gone)
				}
			}
		},
	},
	{
		Name:     "a record is kept until Until",
		Sentence: "A record whose Until is ahead of the store's clock outlives its TTL: it is there until that clock has passed Until.",
		check: func(s *subject) {
			const ttl, lead = time.Hour, 48 * time.Hour
			now := s.Now().Round(0)
			ends := []time.Time{now.Add(lead), now.Add(lead + time.Microsecond), now.Add(100 * year)}
			for _, year := range []int{2200, 2255, 2256, 2300, 9999, 300_000, 1_000_000_000} {
				ends = append(ends, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC))
			}
			var swaps []storage.Swap // one group, so that each key must have its own
			for i, end := range ends {
				swaps = append(swaps, until(writing(key(fmt.Sprint("ahead ", i)), 0, "state", ttl), end))
			}
			s.swap(swaps...)
			alone := until(writing(key("alone"), 0, "state", ttl), now.Add(lead))
			s.swap(alone)
			replaced := until(writing(key("replaced"), s.put(key("replaced"), "before", ttl), "state", ttl), now.Add(lead))
			s.swap(replaced)
			s.put(key("control"), "state", ttl)

			s.Advance(lead - time.Minute)
			for _, swap := range append(swaps, alone, replaced) {
				if absent(s.get(swap.Key)) {
					s.fail("a record with a TTL of %v, written at %v and needed until %v, was gone after %v", ttl, now, swap.Until, lead-time.Minute)
				}
			}
			if !absent(s.get(key("control"))) {
				return // this store expires nothing; another law judges that
			}
			s.Advance(time.Minute + s.Slack)
			if !absent(s.get(alone.Key)) {
				s.fail("a record with a TTL of %v, written at %v and needed until %v, was there after %v", ttl, now, alone.Until, lead+s.Slack)
			}
		},
	},
	{
		Name:     "an Until that is past leaves the TTL",
		Sentence: "A record whose Until is past, or passes before its TTL, is kept for its TTL: for ever if that is zero.",
		check: func(s *subject) {
			const ttl = time.Hour
			now := s.Now().Round(0)
			ends := []time.Time{{}, now.Add(-ttl), now, now.Add(ttl / 2), time.Unix(0, 0), time.Unix(0, 1)}
			for _, year := range []int{-1_000_000_000, -300_000, 1, 1600, 1969} {
				ends = append(ends, time.Date(year, 12, 31, 23, 59, 59, 999_999_999, time.UTC))
			}
			var lasting, forEver []storage.Swap
			for i, end := range ends {
				lasting = append(lasting, until(writing(key(fmt.Sprint("lasting ", i)), 0, "state", ttl), end))
				forEver = append(forEver, until(writing(key(fmt.Sprint("for ever ", i)), 0, "state", 0), end))
			}
			forEver = append(forEver, until(writing(key("for ever, ahead"), 0, "state", 0), now.Add(2*ttl)))
			s.swap(lasting...)
			s.swap(forEver...)
			s.put(key("control"), "state", ttl)

			s.Advance(ttl - time.Minute)
			for _, swap := range lasting {
				if absent(s.get(swap.Key)) {
					s.fail("a record with a TTL of %v, written at %v with an Until of %v, was gone after %v", ttl, now, swap.Until, ttl-time.Minute)
				}
			}
			s.Advance(time.Minute + s.Slack)
			lapses := absent(s.get(key("control"))) // or this store expires nothing; another law judges that
			for _, swap := range lasting {
				if lapses && !absent(s.get(swap.Key)) {
					s.fail("a record with a TTL of %v, written at %v with an Until of %v, was there after %v", ttl, now, swap.Until, ttl+s.Slack)
				}
			}
			s.Advance(2 * ttl)
			for _, swap := range forEver {
				if absent(s.get(swap.Key)) {
					s.fail("a record without a TTL, with an Until of %v, was gone after %v", swap.Until, 3*ttl+s.Slack)
				}
			}
		},
	},
}

// outlasts requires that a record with that TTL is there after passed. The server's
// time goes on meanwhile: a trial that took longer than is left proves nothing.
func (s *subject) outlasts(ttl, passed time.Duration) {
	const trials = 10
	for i := range trials {
		start, k := time.Now(), key(fmt.Sprint("lasting ", ttl, i))
		s.put(k, "state", ttl)
		s.Advance(passed)
		if !absent(s.get(k)) {
			return
		}
		if time.Since(start) < ttl-passed {
			s.fail("a record with a TTL of %v was gone after %v", ttl, passed)
		}
	}
	if ttl-passed >= time.Millisecond { // less is for stores whose time stands still meanwhile, or nearly
		s.fail("too slow to tell: %d times, a put and a get took more than %v", trials, ttl-passed)
	}
}

// until is the swap of a record that is needed until end.
func until(swap storage.Swap, end time.Time) storage.Swap {
	swap.Until = end
	return swap
}
