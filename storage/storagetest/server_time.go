package storagetest

import (
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage/driver"
)

// IsOfServers reports whether the law is about [driver.Server].
func (l Law) IsOfServers() bool {
	return slices.ContainsFunc(lawsOfServers(), func(law Law) bool { return law.Name == l.Name })
}

// lawsOfServers are the laws of a [driver.Server].
func lawsOfServers() []Law {
	laws := slices.Concat(serverLaws, serverTimeLaws, versionLaws, []Law{randomBatches})
	for i := range laws {
		laws[i].applies = can[driver.Server]
	}
	return laws
}

var serverTimeLaws = []Law{
	{
		Name:     "a batch is decided at its time",
		Sentence: "A batch that has a time is decided at that time, whatever any clock says.",
		check: func(s *subject) {
			for _, year := range []int{1971, 2001, 2099} {
				now := time.Date(year, 5, 6, 7, 8, 9, 123_456_789, time.UTC)
				name := now.String()
				b := batchOf(threeAnHour, []string{name}, ask(allow(0, 2)))
				b.Now = now
				s.applies(b, 1)
				if !b.At.Equal(now) {
					s.fail("a batch at %v was decided at %v", now, b.At)
				}
				s.spent(name, b.Version, threeAnHour, now, 2)
				for _, c := range []struct {
					later time.Duration
					want  int
				}{{20*time.Minute - 1, 0}, {20 * time.Minute, 1}} {
					again := batchOf(threeAnHour, []string{name}, ask(allow(0, 2)))
					again.Now = now.Add(c.later)
					s.applies(again, c.want)
				}
			}
		},
	},
	{
		Name:     "the server's clock decides",
		Sentence: "A batch without a time is decided by the clock of the server, and returns what that was.",
		check: func(s *subject) {
			const off = time.Second
			for _, names := range [][]string{{"a", "b"}, {"alone"}} {
				b := batchOf(threeAnHour, names)
				for i := range names {
					b.Requests = append(b.Requests, ask(allow(i, 1)))
				}
				before := s.Now()
				s.run(b)
				if b.At.Before(before.Add(-off)) || b.At.After(s.Now().Add(off)) {
					s.fail("at %v by the clock of the server, a batch was decided at %v", before, b.At)
				}
				for _, name := range names {
					s.spent(name, b.Version, threeAnHour, b.At, 1)
				}
			}
		},
	},
	{
		Name:     "a batch sets TTLs",
		Sentence: "A record that a batch writes is there until the TTL of the last step that changed it has passed, and then it is absent.",
		check: func(s *subject) {
			b := batchOf(tenAnHour, []string{"6m", "1h", "twice"}, ask(allow(0, 1)), ask(allow(1, 10)), ask(allow(2, 1)), ask(allow(2, 9)), ask(allow(2, 1)))
			s.applies(b, 1, 1, 1, 1, 0)
			again := batchOf(tenAnHour, []string{"again"}, ask(allow(0, 1)))
			s.applies(again, 1)
			s.applies(batchOf(tenAnHour, []string{"again"}, ask(allow(0, 9))), 1)
			s.put(key("control"), "x", time.Hour)
			s.Advance(5 * time.Minute)
			s.present("6m", "1h", "twice", "again")
			s.Advance(54 * time.Minute)
			s.present("1h", "twice", "again")
			s.Advance(time.Minute + s.Slack)
			s.lapsed("6m", "1h", "twice", "again")
		},
	},
	{
		Name:     "a record of a batch is kept until it is as new",
		Sentence: "A record of a batch whose time is ahead of the store's clock is there until that clock has passed the time of the batch and the TTL.",
		check: func(s *subject) {
			const lead = 48 * time.Hour
			now := s.Now().Round(0)
			ahead := batchOf(tenAnHour, []string{"ahead", "ahead too"}, ask(allow(0, 10)), ask(allow(1, 1)))
			ahead.Now = now.Add(lead)
			s.applies(ahead, 1, 1)
			alone := batchOf(tenAnHour, []string{"alone"}, ask(allow(0, 10)))
			alone.Now = now.Add(lead)
			s.applies(alone, 1)
			behind := batchOf(tenAnHour, []string{"behind"}, ask(allow(0, 10)))
			behind.Now = now.Add(-lead)
			s.applies(behind, 1)
			far := batchOf(tenAnHour, []string{"far"}, ask(allow(0, 10)))
			far.Now = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
			s.applies(far, 1)
			s.put(key("control"), "x", time.Hour)
			s.Advance(time.Hour - time.Minute)
			s.present("behind", "ahead", "ahead too", "alone", "far")
			s.Advance(time.Minute + s.Slack)
			s.lapsed("behind")
			s.Advance(lead - time.Hour)
			s.present("ahead", "ahead too", "alone", "far")
			s.Advance(59 * time.Minute)
			s.present("ahead", "alone", "far")
			s.Advance(time.Minute + s.Slack)
			s.lapsed("ahead", "ahead too", "alone")
			s.Advance(10 * year)
			s.present("far")
		},
	},
	{
		Name:     "the margin is added to TTLs",
		Sentence: "The records of a batch with a margin are kept for so much longer.",
		check: func(s *subject) {
			const margin = 2 * time.Hour
			b := batchOf(tenAnHour, []string{"a", "b"}, ask(allow(0, 10)), ask(allow(1, 10)))
			one := batchOf(tenAnHour, []string{"one"}, ask(allow(0, 10)))
			given := batchOf(tenAnHour, []string{"given"}, ask(allow(0, 10)))
			given.Now = s.Now().Round(0)
			for _, b := range []*driver.Batch{b, one, given} {
				b.Margin = margin
				s.run(b)
			}
			s.put(key("control"), "x", time.Hour)
			s.Advance(margin + 59*time.Minute)
			s.present("a", "b", "one", "given")
			s.Advance(time.Minute + s.Slack)
			s.lapsed("a", "b", "one", "given")
		},
	},
}

// present requires that the keys hold records.
func (s *subject) present(names ...string) {
	for _, name := range names {
		if absent(s.get(key(name))) {
			s.fail("%q vanished before its TTL had passed", name)
		}
	}
}

// lapsed requires that the keys hold no records any more, if the store expires any.
func (s *subject) lapsed(names ...string) {
	if !absent(s.get(key("control"))) {
		return // this store expires nothing; another law judges that
	}
	for _, name := range names {
		if !absent(s.get(key(name))) {
			s.fail("%q is there after its TTL has passed", name)
		}
	}
}

var versionLaws = []Law{
	{
		Name:     "a denial writes nothing",
		Sentence: "Requests that change nothing leave the version and the TTL of the record.",
		check: func(s *subject) {
			full := batchOf(threeAnHour, []string{"a", "b"}, ask(allow(0, 3)), ask(allow(1, 3)))
			s.applies(full, 1, 1)
			s.put(key("control"), "x", time.Hour)
			s.Advance(15 * time.Minute)
			for _, b := range []*driver.Batch{
				batchOf(threeAnHour, []string{"a"}, ask(allow(0, 3))),
				batchOf(threeAnHour, []string{"a", "b"}, ask(allow(0, 3)), ask(allow(1, 3), allow(0, 1)), ask(do(driver.Peek, 1, 0))),
			} {
				b.Margin = time.Hour
				for _, applied := range s.run(b) {
					if applied != 0 {
						s.fail("a request beyond the limit: %d is applied", applied)
					}
				}
			}
			s.spent("a", full.Version, threeAnHour, full.At, 3)
			s.spent("b", full.Version, threeAnHour, full.At, 3)
			s.Advance(45*time.Minute + s.Slack)
			s.lapsed("a", "b")
		},
	},
	{
		Name:     "a batch is not applied twice",
		Sentence: "If a batch is run again with its version, the requests on records that carry that version are Stored, and only the others are decided.",
		check: func(s *subject) {
			b := batchOf(threeAnHour, []string{"a", "b"}, ask(allow(0, 2)), ask(allow(0, 2)), ask(allow(1, 1)))
			s.applies(b, 1, 0, 1)
			first, at := *b, b.At
			s.applies(b, driver.Stored, driver.Stored, driver.Stored)
			if b.Found[0].Version != first.Version || b.Found[1].Version != first.Version {
				s.fail("a batch that was run again found %s and %s", show(b.Found[0]), show(b.Found[1]))
			}
			s.spent("a", b.Version, threeAnHour, at, 2)
			s.spent("b", b.Version, threeAnHour, at, 1)
			one := batchOf(threeAnHour, []string{"one"}, ask(allow(0, 2)))
			s.applies(one, 1)
			oneAt := one.At
			s.applies(one, driver.Stored)
			s.spent("one", one.Version, threeAnHour, oneAt, 2)

			other := batchOf(threeAnHour, []string{"b"}, ask(allow(0, 1)))
			s.applies(other, 1) // and b carries another version
			mixed := batchOf(threeAnHour, []string{"a", "b", "c"}, ask(allow(0, 1)), ask(allow(0, 1), allow(2, 1)), ask(allow(1, 1)), ask(allow(2, 3)), ask(do(driver.Peek, 0, 0)))
			mixed.Version = first.Version
			s.applies(mixed, driver.Stored, driver.Stored, 1, 1, driver.Stored)
			s.spent("a", first.Version, threeAnHour, at, 2)
			s.spent("c", first.Version, threeAnHour, mixed.At, 3)
		},
	},
}
