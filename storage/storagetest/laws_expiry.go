package storagetest

import (
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice/storage"
)

const (
	hour = time.Hour
	year = 365 * 24 * hour
)

var expiryLaws = []Law{
	law("no record expires before its TTL",
		"A record exists until its TTL has passed, however short or long it is, and for ever if its TTL is 0. A store never rounds a "+
			"TTL down.", func(s *subject) {
			version := s.put(key("for ever"), "state", 0)
			for _, c := range []struct{ ttl, passed time.Duration }{
				{999 * time.Millisecond, 0},
				{1999 * time.Millisecond, time.Second},
				{hour + 999*time.Millisecond, hour},
				{hour + 999*time.Microsecond + 999, hour},
				{48 * hour, 48*hour - time.Minute},
				{100 * year, 100*year - time.Minute},
				{math.MaxInt64, 10 * year},
			} {
				s.outlasts(c.ttl, c.passed)
			}
			for _, short := range []time.Duration{1, time.Microsecond, time.Millisecond - 1} {
				s.put(key(fmt.Sprint("short ", short)), "x", short) // may expire at once, but must be valid
			}
			s.holds(key("for ever"), version, "state")
		}),
	law("Load returns what is left of the TTL",
		"The TTL of a loaded record is how long the store will still keep it. It is 0 if the record is kept for ever.", func(s *subject) {
			const ttl, passed = hour, 20 * time.Minute
			s.put(key("an hour"), "state", ttl)
			s.put(key("for ever"), "state", 0)
			s.keeps("a new record", s.get(key("an hour")), ttl)
			s.keeps("a record without a TTL", s.get(key("for ever")), 0)
			s.Advance(passed)
			s.keeps("an older record", s.get(key("an hour")), ttl-passed)
			records := s.load(key("for ever"), key("absent"), key("an hour"))
			s.keeps("the first of three records", records[0], 0)
			s.keeps("an absent record", records[1], 0)
			s.keeps("the last of three records", records[2], ttl-passed)
		}),
	law("Load returns the time",
		"Load returns the time of the store's clock during the call.", func(s *subject) {
			const margin = time.Millisecond // the clocks of the test and of a server may differ a little
			s.put(key("stored"), "state", 0)
			for _, keys := range [][]string{keys("absent"), keys("a", "b"), keys("stored", "absent")} {
				before := s.Now().Add(-margin)
				_, now, err := s.Store.Load(s.ctx, keys...)
				if after := s.Now().Add(margin); err != nil || now.Before(before) || now.After(after) {
					s.fail("Load of %d keys returned the time %v and the error %v, want a time from %v to %v", len(keys), now, err, before, after)
				}
			}
		}),
	law("an expired key is absent",
		"When its TTL and the harness's Slack have passed, a record is absent for Load and CompareAndSwap.", func(s *subject) {
			const ttl = hour
			versions := map[string]storage.Version{}
			for _, name := range []string{"loaded", "conflicting", "created", "replaced", "deleted"} {
				versions[name] = s.put(key(name), "state", ttl)
			}
			s.Advance(ttl + s.Slack)
			s.lacks(key("loaded"))
			if current, _ := s.try(writing(key("conflicting"), storage.NewVersion(), "x", 0)); len(current) == 1 && !absent(current[0]) {
				s.fail("a conflict returned an expired record: %s", show(current[0]))
			}
			again := writing(key("created"), 0, "again", 0)
			s.swap(again)
			s.holds(again.Key, again.New.Version, "again")
			s.conflicts("replaces an expired record", writing(key("replaced"), versions["replaced"], "x", 0))
			s.conflicts("deletes an expired record", deleting(key("deleted"), versions["deleted"]))
		}),
	law("a swap sets the TTL of each key",
		"Each record of a CompareAndSwap is kept for its own TTL. It replaces the TTL that the key had, and may be longer, shorter or 0.", func(s *subject) {
			const ttl, long = hour, 24 * hour
			before := lifetimes{"longer": ttl, "shorter": long, "to no TTL": ttl, "from no TTL": 0}
			after := lifetimes{"longer": long, "shorter": ttl, "to no TTL": 0, "from no TTL": ttl}
			var creates, replaces []storage.Swap
			for name, lifetime := range after {
				create := writing(key(name), 0, "before", before[name])
				creates = append(creates, create)
				replaces = append(replaces, writing(create.Key, create.New.Version, "after", lifetime))
			}
			s.swap(creates...)
			s.swap(replaces...)
			s.last(after)
		}),
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

var purgeLaws = []Law{
	law("a purge removes only expired records",
		"Purge removes the records whose last TTL has passed, at most max in each call, and no others. If max is 0 or negative, it "+
			"removes nothing.", func(s *subject) {
			const ttl, long, max = hour, 3 * hour, 2
			purger := s.Store.(storage.Purger)
			versions := map[string]storage.Version{}
			write := func(name string, ttls ...time.Duration) {
				for _, each := range ttls {
					swap := writing(key(name), versions[name], "state", each)
					s.swap(swap)
					versions[name] = swap.New.Version
				}
			}
			purge := func(expired int, live ...string) {
				for total, n := 0, max; n == max; {
					var err error
					n, err = purger.Purge(s.ctx, max)
					total += n
					if err != nil || n < 0 || n > max || total > expired || n < max && total < expired {
						s.fail("Purge(%d) removed %d records, in all %d of %d expired ones; error %v", max, n, total, expired, err)
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
			s.on(s.Other).put(key("of the other"), "x", ttl)
			s.Advance(ttl + s.Slack)
			write("written again", long)
			for _, none := range []int{0, -1, math.MinInt} {
				if n, err := purger.Purge(s.ctx, none); n != 0 || err != nil {
					s.fail("Purge(%d) removed %d records, error %v", none, n, err)
				}
			}
			purge(8, "longer", "long", "no longer", "for ever", "written again")
			s.Advance(long + s.Slack)
			purge(3, "no longer", "for ever")
			write("no longer", ttl)
			s.Advance(ttl + s.Slack)
			purge(1, "for ever")
		}),
}
