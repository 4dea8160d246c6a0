package storagetest

import (
	"cmp"
	"context"
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
	for i, u := range updates {
		if u.Err != nil {
			s.fail("update %d of %d, of %.40q, failed: %v", i, len(updates), u.Keys, u.Err)
		}
	}
}

// requiring returns an update of one key that must read the state want and then makes change. "-" stands for
// an absent key.
func (s *subject) requiring(key, want string, change driver.Change) *driver.Update {
	return updating(key, s.reading(fmt.Sprintf("an update of %q", key), "-", []string{want}, change))
}

func updating(key string, d decider) *driver.Update {
	return &driver.Update{Keys: []string{key}, Decider: d}
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
	law("an update fails alone",
		"If an update of a transaction fails, its Err is the reason, and the other updates are stored. Transact clears an Err of "+
			"an earlier transaction.", func(s *subject) {
			cannot := errors.New("cannot decide")
			bad := map[int]error{1: cannot, 3: storage.ErrSwap, 5: storage.ErrDuplicateKey}
			updates := []*driver.Update{
				s.requiring(key("0"), "-", putting("0", 0)), updating(key("1"), making(cannot)),
				s.requiring(key("2"), "-", putting("2", 0)), updating(key("3"), making(nil, putting("x", -1))),
				s.requiring(key("4"), "-", putting("4", 0)), updating(key("5"), making(nil)),
				s.requiring(key("6"), "-", putting("6", 0)),
			}
			updates[5].Keys = append(updates[5].Keys, key("5"))
			updates[0].Err = errors.New("of an earlier transaction")
			if err := s.Store.(driver.Transactor).Transact(s.ctx, nil, updates...); err != nil {
				s.fail("Transact of updates that fail: %v", err)
			}
			for i, u := range updates {
				if want, fails := bad[i]; fails != (u.Err != nil) || !errors.Is(u.Err, want) {
					s.fail("update %d of %d has the error %v, want %v", i, len(updates), u.Err, want)
				}
				if got := s.get(key(strconv.Itoa(i))); absent(got) != (bad[i] != nil) {
					s.fail("after update %d of %d, with the error %v, its key has %s", i, len(updates), u.Err, show(got))
				}
			}
		}),
	law("a transaction has one time",
		"All updates of a transaction have the same Now. It is the result of the single call of clock, or the time of the "+
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
					updates[i] = updating(key(fmt.Sprint(i)), func([][]byte, []driver.Change) error {
						times = append(times, updates[i].Now)
						return nil
					})
				}
				s.transact(clock, updates...)
				for i, u := range updates {
					if len(times) != len(updates) || !times[i].Equal(times[0]) || !u.Now.Equal(times[0]) {
						s.fail("the updates of a transaction decided at %v, and one of them has the Now %v", times, u.Now)
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
					var u *driver.Update
					u = updating(k, func(found [][]byte, next []driver.Change) error {
						last, err := strconv.ParseInt(string(found[0]), 10, 64)
						if err != nil || u.Now.Unix() <= last {
							return fmt.Errorf("an update at second %d found a record of second %s", u.Now.Unix(), found[0])
						}
						next[0] = putting(strconv.FormatInt(u.Now.Unix(), 10), 0)
						return nil
					})
					s.transact(clock, u)
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
		"If the database drops the write of a key, the update of this key fails and changes nothing.", func(s *subject) {
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
				if err := s.Store.(driver.Transactor).Transact(s.ctx, nil, u); !errors.Is(cmp.Or(err, u.Err), storage.ErrNotApplied) {
					s.fail("the database dropped a write that %s a record, and Transact returned the errors %v and %v", what, err, u.Err)
				}
				s.holds(old, version, "old")
				s.lacks(created)
			}
		}),
	law("a panic rolls back the transaction",
		"If an update of a transaction panics, no update is stored, and the next transaction succeeds.", func(s *subject) {
			a, b := key("a"), key("b")
			version := s.put(a, "before", 0)
			faulty := updating(b, func([][]byte, []driver.Change) error { panic("a bug of the caller") })
			s.panics(func() { s.transact(nil, s.requiring(a, "before", putting("after", 0)), faulty) })
			s.concurrently(1, func(int) { // detects a call that hangs
				s.holds(a, version, "before")
				s.transact(nil, s.requiring(a, "before", putting("after", 0)), s.requiring(b, "-", driver.Change{}))
			})
		}),
}

// inTransactions turns laws of updates in place into laws of transactions with one update.
func inTransactions(laws []Law) (turned []Law) {
	for _, l := range laws {
		turned = append(turned, law(l.Name+", in a transaction", "In a transaction: "+l.Sentence, func(s *subject) {
			l.check(s.on(&transacted{Transactor: s.Store.(driver.Transactor), advance: s.Advance}))
		}))
	}
	return turned
}

// transacted implements Update with transactions of one update. It advances the time if an update has a later
// time.
type transacted struct {
	driver.Transactor
	advance func(time.Duration)
	passed  time.Duration
}

func (t *transacted) Update(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
	if at := now.Sub(epoch); at > t.passed {
		t.advance(at - t.passed)
		t.passed = at
	}
	u := &driver.Update{Keys: keys, Decider: d}
	if err := t.Transact(ctx, nil, u); err != nil {
		return err
	}
	return u.Err
}
