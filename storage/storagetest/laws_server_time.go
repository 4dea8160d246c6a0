package storagetest

import (
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage/driver"
)

// IsOfServers reports whether the law is a law of [driver.Server].
func (l Law) IsOfServers() bool {
	return slices.ContainsFunc(lawsOfServers(), func(law Law) bool { return law.Name == l.Name })
}

func lawsOfServers() []Law {
	return lawsOf[driver.Server](slices.Concat(serverLaws, serverTimeLaws, versionLaws, []Law{randomBatches}))
}

var serverTimeLaws = []Law{
	{
		Name:     "a batch is decided at its time",
		Sentence: "A batch with a time is decided at that time, whatever the clocks read.",
		check: func(s *subject) {
			for _, year := range []int{1971, 2001, 2099} {
				now := time.Date(year, 5, 6, 7, 8, 9, 123_456_789, time.UTC)
				name := now.String()
				b := batchOf(threeAnHour, []string{name}, request(allow(0, 2)))
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
					again := batchOf(threeAnHour, []string{name}, request(allow(0, 2)))
					again.Now = now.Add(c.later)
					s.applies(again, c.want)
				}
			}
		},
	},
	{
		Name:     "a batch without a time uses the server's clock",
		Sentence: "A batch without a time is decided at the time of the server, and returns that time.",
		check: func(s *subject) {
			const tolerance = time.Second
			for _, names := range [][]string{{"a", "b"}, {"alone"}} {
				b := batchOf(threeAnHour, names)
				for i := range names {
					b.Requests = append(b.Requests, request(allow(i, 1)))
				}
				before := s.Now()
				s.run(b)
				if b.At.Before(before.Add(-tolerance)) || b.At.After(s.Now().Add(tolerance)) {
					s.fail("at the server's time %v, a batch was decided at %v", before, b.At)
				}
				for _, name := range names {
					s.spent(name, b.Version, threeAnHour, b.At, 1)
				}
			}
		},
	},
	{
		Name:     "a batch sets TTLs",
		Sentence: "A record that a batch writes exists until the TTL of the last step that changed it has passed. Then it is absent.",
		check: func(s *subject) {
			b := batchOf(tenAnHour, []string{"6m", "1h", "twice"}, request(allow(0, 1)), request(allow(1, 10)), request(allow(2, 1)), request(allow(2, 9)), request(allow(2, 1)))
			s.applies(b, 1, 1, 1, 1, 0)
			again := batchOf(tenAnHour, []string{"again"}, request(allow(0, 1)))
			s.applies(again, 1)
			s.applies(batchOf(tenAnHour, []string{"again"}, request(allow(0, 9))), 1)
			s.Advance(5 * time.Minute)
			s.present("6m", "1h", "twice", "again")
			s.Advance(54 * time.Minute)
			s.present("1h", "twice", "again")
			s.Advance(time.Minute + s.Slack)
			s.expired("6m", "1h", "twice", "again")
		},
	},
	{
		Name:     "a batch with a later time keeps its records longer",
		Sentence: "If the time of a batch is after the time of the server, a record exists until the server's time has passed the time of the batch plus the TTL.",
		check: func(s *subject) {
			const lead = 48 * time.Hour
			now := s.Now().Round(0)
			ahead := batchOf(tenAnHour, []string{"ahead", "ahead too"}, request(allow(0, 10)), request(allow(1, 1)))
			ahead.Now = now.Add(lead)
			s.applies(ahead, 1, 1)
			alone := batchOf(tenAnHour, []string{"alone"}, request(allow(0, 10)))
			alone.Now = now.Add(lead)
			s.applies(alone, 1)
			behind := batchOf(tenAnHour, []string{"behind"}, request(allow(0, 10)))
			behind.Now = now.Add(-lead)
			s.applies(behind, 1)
			far := batchOf(tenAnHour, []string{"far"}, request(allow(0, 10)))
			far.Now = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
			s.applies(far, 1)
			s.Advance(time.Hour - time.Minute)
			s.present("behind", "ahead", "ahead too", "alone", "far")
			s.Advance(time.Minute + s.Slack)
			s.expired("behind")
			s.Advance(lead - time.Hour)
			s.present("ahead", "ahead too", "alone", "far")
			s.Advance(59 * time.Minute)
			s.present("ahead", "alone", "far")
			s.Advance(time.Minute + s.Slack)
			s.expired("ahead", "ahead too", "alone")
			s.Advance(10 * year)
			s.present("far")
		},
	},
	{
		Name:     "the margin is added to TTLs",
		Sentence: "The records of a batch are kept for their TTL plus Margin.",
		check: func(s *subject) {
			const margin = 2 * time.Hour
			b := batchOf(tenAnHour, []string{"a", "b"}, request(allow(0, 10)), request(allow(1, 10)))
			one := batchOf(tenAnHour, []string{"one"}, request(allow(0, 10)))
			given := batchOf(tenAnHour, []string{"given"}, request(allow(0, 10)))
			given.Now = s.Now().Round(0)
			for _, b := range []*driver.Batch{b, one, given} {
				b.Margin = margin
				s.run(b)
			}
			s.Advance(margin + 59*time.Minute)
			s.present("a", "b", "one", "given")
			s.Advance(time.Minute + s.Slack)
			s.expired("a", "b", "one", "given")
		},
	},
}

var versionLaws = []Law{
	{
		Name:     "a denial writes nothing",
		Sentence: "Requests that change nothing do not change the version and the TTL of the record.",
		check: func(s *subject) {
			full := batchOf(threeAnHour, []string{"a", "b"}, request(allow(0, 3)), request(allow(1, 3)))
			s.applies(full, 1, 1)
			s.Advance(15 * time.Minute)
			for _, b := range []*driver.Batch{
				batchOf(threeAnHour, []string{"a"}, request(allow(0, 3))),
				batchOf(threeAnHour, []string{"a", "b"}, request(allow(0, 3)), request(allow(1, 3), allow(0, 1)), request(use(driver.Peek, 1, 0))),
			} {
				b.Margin = time.Hour
				for _, applied := range s.run(b) {
					if applied != 0 {
						s.fail("a request beyond the limit has Applied %d", applied)
					}
				}
			}
			s.spent("a", full.Version, threeAnHour, full.At, 3)
			s.spent("b", full.Version, threeAnHour, full.At, 3)
			s.Advance(45*time.Minute + s.Slack)
			s.expired("a", "b")
		},
	},
}
