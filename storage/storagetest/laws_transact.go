package storagetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// transact runs updates that must succeed, in one transaction.
func (s *subject) transact(clock func() time.Time, updates ...*driver.Update) {
	if err := s.Store.(driver.Transactor).Transact(s.ctx, clock, updates...); err != nil {
		s.fail("Transact of %d updates: %v", len(updates), err)
	}
}

// requiring returns an update of one key that must read the state want and then makes change. "-" stands for
// an absent key.
func (s *subject) requiring(key, want string, change driver.Change) *driver.Update {
	return updating(key, s.reading(fmt.Sprintf("an update of %q", key), "-", []string{want}, change))
}

func updating(key string, d decider) *driver.Update {
	return updateOf([]string{key}, d)
}

var transactLaws = []Law{
	law("an update reads the changes of earlier updates",
		"Each update of a transaction reads the changes of the updates before it. The final states are stored.", func(s *subject) {
			a, b, c := key("a"), key("b"), key("c")
			s.put(b, "old", 0)
			remove, keep := driver.Change{Verb: driver.Delete}, driver.Change{}
			s.transact(nil,
				s.requiring(a, "-", putting("1", 0)), s.requiring(b, "old", remove), s.requiring(c, "-", putting("", 0)),
				s.requiring(a, "1", putting("2", time.Hour)), s.requiring(b, "-", keep), s.requiring(c, "", remove),
				s.requiring(a, "2", keep), s.requiring(b, "-", putting("new", 0)), s.requiring(c, "-", keep))
			s.lacks(c)
			for k, want := range map[string]string{a: "2", b: "new"} {
				if got := s.get(k); absent(got) || string(got.State) != want {
					s.fail("after the transaction %q should have the state %q, but has %s", k, want, show(got))
				}
			}
		}),
	law("an update is refused alone",
		"If Decide of an update returns false, the other updates of the transaction are stored.", func(s *subject) {
			s.transact(nil, s.requiring(key("0"), "-", putting("0", 0)),
				updating(key("1"), making(errors.New("cannot decide"), putting("1", 0))), s.requiring(key("2"), "-", putting("2", 0)))
			for i := range 3 {
				if got := s.get(key(strconv.Itoa(i))); absent(got) != (i == 1) {
					s.fail("after three updates, of which the one in the middle was refused, the key of update %d has %s", i, show(got))
				}
			}
		}),
	law("a transaction has one time",
		"All updates of a transaction decide at the same time. It is the result of the single call of clock, or the time of the "+
			"store's own clock if clock is nil.", func(s *subject) {
			readings := 0
			clock := func() time.Time {
				readings++
				return epoch.Add(time.Duration(readings) * time.Minute)
			}
			now := func(clock func() time.Time) time.Time {
				var times []time.Time
				updates := make([]*driver.Update, 3)
				for i := range updates {
					updates[i] = updating(key(fmt.Sprint(i)), func(now time.Time, _ [][]byte, _ []driver.Change) error {
						times = append(times, now)
						return nil
					})
				}
				s.transact(clock, updates...)
				for i := range updates {
					if len(times) != len(updates) || !times[i].Equal(times[0]) {
						s.fail("the updates of a transaction decided at %v", times)
					}
				}
				return times[0]
			}
			if at := now(clock); readings != 1 || !at.Equal(epoch.Add(time.Minute)) {
				s.fail("the clock was called %d times, and the updates decided at %v, want one call and %v", readings, at, epoch.Add(time.Minute))
			}
			earliest := s.Now()
			if at := now(nil); at.Before(earliest) || at.After(s.Now()) {
				s.fail("without a clock the updates decided at %v, want a time between %v and %v", at, earliest, s.Now())
			}
		}),
	law("the clock is read in the transaction",
		"Transact calls clock when no other transaction can write any more. So of two transactions on one key, the later one has "+
			"the later time.", func(s *subject) {
			const transactors, times = 8, 20
			var seconds atomic.Int64
			clock := func() time.Time { return time.Unix(seconds.Add(1), 0) }
			k := key("k")
			s.put(k, "0", 0)
			s.concurrently(transactors, func(int) {
				for range times {
					s.transact(clock, updating(k, func(now time.Time, found [][]byte, next []driver.Change) error {
						last, err := strconv.ParseInt(string(found[0]), 10, 64)
						if err != nil || now.Unix() <= last {
							s.fail("an update at second %d found a record of second %s", now.Unix(), found[0])
						}
						next[0] = putting(strconv.FormatInt(now.Unix(), 10), 0)
						return nil
					}))
				}
			})
		}),
	law("a transaction keeps records by both clocks",
		"A record exists until its TTL has passed both by the store's own clock and by the clock of the transaction.", func(s *subject) {
			const ttl, lead = time.Hour, 24 * time.Hour
			now := s.Now()
			for name, at := range map[string]time.Time{"ahead": now.Add(lead), "behind": now.Add(-lead)} {
				s.transact(func() time.Time { return at }, s.requiring(key(name), "-", putting("state", ttl)))
			}
			s.last(map[string]time.Duration{"behind": ttl, "ahead": lead + ttl})
		}),
	law("an update that the database drops is an error",
		"If the database drops the write of a key, Transact fails and changes nothing.", func(s *subject) {
			if s.DropWrites == nil {
				return
			}
			old, created := key("dropped old"), key("dropped new")
			version := s.put(old, "old", 0)
			s.DropWrites(old)
			s.DropWrites(created)
			for what, u := range map[string]*driver.Update{
				"replaces": updating(old, making(nil, putting("x", 0))), "deletes": updating(old, making(nil, driver.Change{Verb: driver.Delete})),
				"creates": updating(created, making(nil, putting("x", 0))),
			} {
				if err := s.Store.(driver.Transactor).Transact(s.ctx, nil, u); !errors.Is(err, storage.ErrNotApplied) {
					s.fail("the database dropped a write that %s a record, and Transact returned the error %v", what, err)
				}
				s.holds(old, version, "old")
				s.lacks(created)
			}
		}),
	law("a transaction goes on after a panic of an earlier one",
		"If an update of a transaction panics, the next transaction succeeds.", func(s *subject) {
			a, b := key("a"), key("b")
			faulty := updating(b, func(time.Time, [][]byte, []driver.Change) error { panic("a bug of the caller") })
			s.panics(func() { s.transact(nil, s.requiring(a, "-", driver.Change{}), faulty) })
			s.concurrently(1, func(int) { // detects a call that hangs
				s.transact(nil, s.requiring(a, "-", putting("after", 0)), s.requiring(b, "-", driver.Change{}))
			})
		}),
}
