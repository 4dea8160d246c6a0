package storagetest

import (
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/storage/driver"
)

// transact runs updates that must succeed, in one transaction.
func (s *subject) transact(clock func() time.Time, updates ...*driver.Update) {
	if err := s.Store.(driver.Transactor).Transact(s.ctx, clock, updates...); err != nil {
		s.fail("Transact of %d updates: %v", len(updates), err)
	}
}

func updateOf(keys []string, decide func(now time.Time, items []driver.Item) bool) *driver.Update {
	u := new(driver.Update)
	for _, key := range keys {
		parts, _ := driver.ParseKey(key)
		u.Items = append(u.Items, driver.Item{Key: parts})
	}
	u.Decide = func(now time.Time) bool { return decide(now, u.Items) }
	return u
}

// changing returns an update that makes these changes.
func changing(keys []string, changes ...driver.Change) *driver.Update {
	return updateOf(keys, func(_ time.Time, items []driver.Item) bool {
		for i, change := range changes {
			items[i].Next = change
		}
		return true
	})
}

func putting(state string, ttl time.Duration) driver.Change {
	return driver.Change{Verb: driver.Put, State: []byte(state), TTL: ttl}
}

var removing = driver.Change{Verb: driver.Delete}

const missing = "-" // stands for the state of an absent key

// requiring returns an update that must find these states, and then changes the first key.
func (s *subject) requiring(keys []string, want []string, change driver.Change) *driver.Update {
	return updateOf(keys, func(_ time.Time, items []driver.Item) bool {
		for i, item := range items {
			if got := item.Found; absent(got) != (want[i] == missing) || !absent(got) && string(got.State) != want[i] {
				s.fail("an update of %.40q found %s, want the state %q (%q is none)", keys[i], show(got), want[i], missing)
			}
			if c := item.Next; c.Verb != driver.Keep || len(c.State) != 0 || c.TTL != 0 {
				s.fail("an update of %.40q received a change that is not zero: %v", keys[i], c)
			}
		}
		items[0].Next = change
		return true
	})
}

// finds requires that an update finds these states.
func (s *subject) finds(keys []string, want ...string) {
	s.transact(nil, s.requiring(keys, want, driver.Change{}))
}

var transactLaws = []Law{
	law("an update finds the stored records",
		"An update finds the record of each key with what is left of its TTL. It finds the zero Record if and only if the key is absent at "+
			"the time of the update.", func(s *subject) {
			const ttl, passed = time.Hour, 20 * time.Minute
			keys := keys("b", "absent", "a", "empty")
			s.finds(keys, missing, missing, missing, missing)
			s.transact(nil, changing(keys, putting("state b", ttl), driver.Change{}, putting("state a", 0), putting("", 0)))
			s.Advance(passed)
			s.finds(keys, "state b", missing, "state a", "")
			u := changing(keys)
			s.transact(nil, u)
			for i, left := range []time.Duration{ttl - passed, 0, 0, 0} {
				s.keeps(fmt.Sprintf("the record of %q", keys[i]), u.Items[i].Found, left)
			}
			s.Advance(ttl - passed + s.Slack)
			s.finds(keys, missing, missing, "state a", "")
		}),
	law("an update applies its changes",
		"An update applies Put, Delete and Keep. Put writes a new version. Keep does not change version or TTL.", func(s *subject) {
			keys := keys("put", "delete", "keep", "delete nothing", "keep for ever")
			old, kept := s.put(keys[0], "0", 0), s.put(keys[4], "3", 0)
			s.transact(nil, changing(keys[1:3], putting("1", 0), putting("2", time.Hour)))
			s.transact(nil, changing(keys, putting("changed", 0), removing, driver.Change{State: []byte("ignored"), TTL: 48 * time.Hour}, removing))
			s.finds(keys, "changed", missing, "2", missing, "3")
			s.conflicts("has the version before an update", writing(keys[0], old, "x", 0))
			s.Advance(time.Hour + s.Slack)
			s.finds(keys, "changed", missing, missing, missing, "3")
			s.holds(keys[4], kept, "3")
		}),
	law("an update sets the TTL",
		"A record that an update puts exists until its new TTL has passed, whatever TTL the key had, both by the store's own clock and by the "+
			"clock of the transaction. The TTL is never rounded down.", func(s *subject) {
			const ttl, uneven, long = time.Hour, 2*time.Hour + 999*time.Millisecond + 999*time.Microsecond + 999, 48 * time.Hour
			names := []string{"longer", "shorter", "none", "one", "uneven"}
			for _, ttls := range [][]time.Duration{{ttl, long, ttl, 0, 0}, {long, ttl, 0, ttl, uneven}} {
				var changes []driver.Change
				for _, ttl := range ttls {
					changes = append(changes, putting("state", ttl))
				}
				s.transact(nil, changing(keys(names...), changes...))
			}
			now := s.Now()
			for name, at := range map[string]time.Time{"ahead": now.Add(long), "behind": now.Add(-long)} {
				s.transact(func() time.Time { return at }, changing(keys(name), putting("state", ttl)))
			}
			s.last(lifetimes{
				"longer": long, "shorter": ttl, "none": 0, "one": ttl, "uneven": uneven, "behind": ttl, "ahead": long + ttl,
			})
		}),
	law("an update without success changes nothing",
		"If Decide returns false, panics or calls runtime.Goexit, its update changes nothing, and the next transaction succeeds. If it "+
			"returns false, the other updates of the transaction are stored.", func(s *subject) {
			a, version := key("a"), s.put(key("a"), "before", 0)
			failing := func(end func()) *driver.Update {
				return updateOf(keys("a", "b"), func(_ time.Time, items []driver.Item) bool {
					items[0].Next, items[1].Next = putting("after", 0), putting("after", 0)
					end()
					return false
				})
			}
			for _, end := range []struct {
				by     func()
				panics bool
			}{{func() {}, false}, {runtime.Goexit, false}, {func() { panic("a bug of the caller") }, true}} {
				ended := make(chan any)
				go func() {
					defer func() { ended <- recover() }()
					_ = s.Store.(driver.Transactor).Transact(s.ctx, nil, changing(keys("other")), failing(end.by))
				}()
				if value := <-ended; (value != nil) != end.panics {
					s.fail("the caller of Transact recovered %v", value)
				}
				s.concurrently(1, func(int) { // detects a call that hangs
					s.holds(a, version, "before")
					s.lacks(key("b"))
					s.transact(nil, changing(keys("a", "b", "other")))
				})
			}
			s.transact(nil, changing(keys("before"), putting("x", 0)), failing(func() {}), changing(keys("after"), putting("x", 0)))
			s.finds(keys("before", "a", "b", "after"), "x", "before", missing, "x")
		}),
	law("an update reads the changes of earlier updates",
		"Each update of a transaction reads the changes of the updates before it. The final states are stored.", func(s *subject) {
			a, b, c, keep := keys("a"), keys("b"), keys("c"), driver.Change{}
			s.put(b[0], "old", 0)
			found := func(state string) []string { return []string{state} }
			s.transact(nil,
				s.requiring(a, found(missing), putting("1", 0)), s.requiring(b, found("old"), removing), s.requiring(c, found(missing), putting("", 0)),
				s.requiring(a, found("1"), putting("2", time.Hour)), s.requiring(b, found(missing), keep), s.requiring(c, found(""), removing),
				s.requiring(a, found("2"), keep), s.requiring(b, found(missing), putting("new", 0)), s.requiring(c, found(missing), keep))
			s.finds(keys("a", "b", "c"), "2", "new", missing)
		}),
	law("a transaction has one time",
		"All updates of a transaction decide at the same time. It is the result of the single call of clock, or the time of the "+
			"store's own clock if clock is nil.", func(s *subject) {
			times := func(clock func() time.Time) (times [3]time.Time) {
				updates := make([]*driver.Update, len(times))
				for i := range updates {
					updates[i] = updateOf(keys(fmt.Sprint(i)), func(now time.Time, _ []driver.Item) bool {
						times[i] = now
						return true
					})
				}
				s.transact(clock, updates...)
				return times
			}
			readings, first := 0, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			at := times(func() time.Time {
				readings++
				return first.Add(time.Duration(readings-1) * time.Minute)
			})
			if readings != 1 || at != [3]time.Time{first, first, first} {
				s.fail("the clock was called %d times, and the updates decided at %v, want one call and %v", readings, at, first)
			}
			earliest := s.Now()
			if at := times(nil); !at[1].Equal(at[0]) || !at[2].Equal(at[0]) || at[0].Before(earliest) || at[0].After(s.Now()) {
				s.fail("without a clock the updates decided at %v, want one time between %v and %v", at, earliest, s.Now())
			}
		}),
	law("the clock is read in the transaction",
		"Transact calls clock when no other transaction can write any more. So of two transactions on one key, the later one has "+
			"the later time.", func(s *subject) {
			const transactors, times = 8, 20
			var seconds atomic.Int64
			clock := func() time.Time { return time.Unix(seconds.Add(1), 0) }
			s.put(key("k"), "0", 0)
			s.concurrently(transactors, func(int) {
				for range times {
					s.transact(clock, updateOf(keys("k"), func(now time.Time, items []driver.Item) bool {
						last, err := strconv.ParseInt(string(items[0].Found.State), 10, 64)
						if err != nil || now.Unix() <= last {
							s.fail("an update at second %d found a record of second %s", now.Unix(), items[0].Found.State)
						}
						items[0].Next = putting(strconv.FormatInt(now.Unix(), 10), 0)
						return true
					}))
				}
			})
		}),
}
