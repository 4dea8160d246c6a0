package storagetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// epoch is the time of the first update of a law. No clock reads it.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// decider decides an update. found[i] is the state of the i-th key, and nil if and only if the key is absent. An error
// means that Decide returns false.
type decider func(now time.Time, found [][]byte, next []driver.Change) error

// updateOf returns an update that decides with d, which may be nil.
func updateOf(keys []string, d decider) *driver.Update {
	u := new(driver.Update)
	for _, key := range keys {
		u.Items = append(u.Items, driver.Item{Key: partsOf(key)})
	}
	u.Decide = func(now time.Time) bool {
		found, next := make([][]byte, len(u.Items)), make([]driver.Change, len(u.Items))
		for i := range u.Items {
			item := &u.Items[i]
			if item.Found.Version != 0 {
				found[i] = append([]byte{}, item.Found.State...)
			}
			next[i] = item.Next
		}
		err := d(now, found, next)
		for i := range next {
			u.Items[i].Next = next[i]
		}
		return err == nil
	}
	return u
}

// making returns a decider that makes the changes and returns err.
func making(err error, changes ...driver.Change) decider {
	return func(_ time.Time, _ [][]byte, next []driver.Change) error {
		copy(next, changes)
		return err
	}
}

func putting(state string, ttl time.Duration) driver.Change {
	return driver.Change{Verb: driver.Put, State: []byte(state), TTL: ttl}
}

// update runs an update, after the time has advanced to now. s.passed is the time that has passed since epoch.
func (s *subject) update(now time.Time, keys []string, d decider) {
	if at := now.Sub(epoch); at > s.passed {
		s.Advance(at - s.passed)
		s.passed = at
	}
	s.transact(nil, updateOf(keys, d))
}

// change makes these changes at epoch+at.
func (s *subject) change(at time.Duration, keys []string, changes ...driver.Change) {
	s.update(epoch.Add(at), keys, making(nil, changes...))
}

// reading returns a decider that must read the states want, and makes changes. what describes the update. none
// stands for the state of an absent key.
func (s *subject) reading(what, none string, want []string, changes ...driver.Change) decider {
	return func(_ time.Time, found [][]byte, next []driver.Change) error {
		got := make([]string, len(found))
		for i, state := range found {
			if got[i] = string(state); state == nil {
				got[i] = none
			}
		}
		if !slices.Equal(got, want) || len(next) != len(want) {
			s.fail("%s received the states %q (%q is none) and %d changes, want %q", what, got, none, len(next), want)
		}
		for _, c := range next {
			if c.Verb != driver.Keep || len(c.State) != 0 || c.TTL != 0 {
				s.fail("%s received a change that is not zero: %v", what, c)
			}
		}
		copy(next, changes)
		return nil
	}
}

// finds requires that an update at epoch+at reads the states want.
func (s *subject) finds(at time.Duration, keys []string, none string, want ...string) {
	s.update(epoch.Add(at), keys, s.reading(fmt.Sprintf("after %v, an update of %.40q", at, keys), none, want))
}

var updateLaws = []Law{
	law("an update reads the stored states",
		"An update reads the state of each key. The state is nil if and only if the key is absent at the time of the update.", func(s *subject) {
			keys := keys("b", "absent", "a", "empty")
			s.finds(0, keys, "-", "-", "-", "-", "-")
			s.change(0, keys, putting("state b", time.Hour), driver.Change{}, putting("state a", 0), putting("", 0))
			s.finds(time.Hour-time.Minute, keys, "-", "state b", "-", "state a", "")
			s.finds(time.Hour+s.Slack, keys, "-", "-", "-", "state a", "")
		}),
	law("an update applies its changes",
		"An update applies Put, Delete and Keep. Keep does not change version or TTL.", func(s *subject) {
			keys := keys("put", "delete", "keep", "delete nothing", "keep for ever")
			kept := s.put(keys[4], "3", 0)
			s.change(0, keys, putting("0", 0), putting("1", 0), putting("2", time.Hour))
			remove, keep := driver.Change{Verb: driver.Delete}, driver.Change{State: []byte("ignored"), TTL: 48 * time.Hour}
			s.change(time.Minute, keys, putting("changed", 0), remove, keep, remove)
			s.finds(time.Minute, keys, "", "changed", "", "2", "", "3")
			s.finds(time.Hour+s.Slack, keys, "", "changed", "", "", "", "3")
			s.holds(keys[4], kept, "3")
		}),
	law("an update sets the TTL",
		"A record that an update puts is kept for its new TTL, whatever TTL the key had. The TTL is never rounded down.", func(s *subject) {
			const ttl, uneven, long = time.Hour, 2*time.Hour + 999*time.Millisecond + 999*time.Microsecond + 999, 48 * time.Hour
			keys := keys("longer", "shorter", "none", "one", "uneven")
			for _, ttls := range [][]time.Duration{{ttl, long, ttl, 0, 0}, {long, ttl, 0, ttl, uneven}} {
				var changes []driver.Change
				for _, ttl := range ttls {
					changes = append(changes, putting("state", ttl))
				}
				s.change(0, keys, changes...)
			}
			s.finds(ttl-time.Minute, keys, "", "state", "state", "state", "state", "state")
			s.finds(uneven-time.Minute, keys[4:], "", "state")
			s.finds(uneven+s.Slack, keys, "", "state", "", "state", "", "")
		}),
	law("an update reads what is left of the TTL",
		"The TTL of a record that an update finds is how long the store will still keep it. It is 0 if the record is kept for ever.", func(s *subject) {
			const ttl, passed = time.Hour, 20 * time.Minute
			keys := keys("an hour", "for ever", "absent")
			s.change(0, keys[:2], putting("state", ttl), putting("state", 0))
			s.Advance(passed)
			u := updateOf(keys, making(nil))
			s.transact(nil, u)
			for i, left := range []time.Duration{ttl - passed, 0, 0} {
				s.keeps(fmt.Sprintf("the record of %q", keys[i]), u.Items[i].Found, left)
			}
		}),
	law("an update writes a new version",
		"A record that an update puts has a new version: a swap from the earlier version is refused.", func(s *subject) {
			k := key("k")
			old := s.put(k, "before", 0)
			s.change(0, []string{k}, putting("after", 0))
			if got := s.get(k); got.Version == old || absent(got) || string(got.State) != "after" {
				s.fail("an update of version %d stored %s", old, show(got))
			}
			s.conflicts("has the version before the update", writing(k, old, "x", 0))
		}),
	law("a refused update changes nothing",
		"If Decide returns false, its update changes nothing.", func(s *subject) {
			a, b := key("a"), key("b")
			version := s.put(a, "before", 0)
			s.update(epoch, []string{a, b}, making(errors.New("cannot decide"), putting("after", 0), putting("after", 0)))
			s.holds(a, version, "before")
			s.lacks(b)
		}),
	law("a panic changes nothing and releases the lock",
		"If Decide panics, its update changes nothing, and the next update succeeds.", func(s *subject) {
			keys := keys("a", "b")
			version := s.put(keys[0], "before", 0)
			s.panics(func() {
				s.update(epoch, keys, func(_ time.Time, _ [][]byte, next []driver.Change) error {
					next[0], next[1] = putting("after", 0), putting("after", 0)
					panic("a bug of the caller")
				})
			})
			s.concurrently(1, func(int) { // detects a call that hangs
				s.holds(keys[0], version, "before")
				s.lacks(keys[1])
				s.change(0, keys)
			})
		}),
	law("a runtime.Goexit changes nothing and releases the lock",
		"If Decide calls runtime.Goexit, as FailNow of a test does, its update changes nothing, and the next update succeeds.", func(s *subject) {
			keys := keys("a", "b")
			version := s.put(keys[0], "before", 0)
			exiting := updateOf(keys, nil)
			exiting.Decide = func(time.Time) bool {
				for i := range exiting.Items {
					exiting.Items[i].Next = putting("after", 0)
				}
				runtime.Goexit()
				return true
			}
			s.concurrently(1, func(int) { // detects a call that hangs
				exited := make(chan struct{})
				go func() {
					defer close(exited)
					_ = s.Store.(driver.Transactor).Transact(s.ctx, nil, exiting)
				}()
				<-exited
				s.holds(keys[0], version, "before")
				s.lacks(keys[1])
				s.change(0, keys)
			})
		}),
	law("a transaction with an ended context changes nothing",
		"If the context has ended before the call, Transact changes nothing and returns ErrNotApplied.", func(s *subject) {
			err := s.Store.(driver.Transactor).Transact(s.ended(), nil, updating(key("a"), making(nil, putting("x", 0))))
			if !errors.Is(err, context.Canceled) || !errors.Is(err, storage.ErrNotApplied) {
				s.fail("Transact with an ended context returned the error %v", err)
			}
			s.lacks(key("a"))
		}),
	law("an update copies new states",
		"Transact stores copies of the states that Decide puts.", func(s *subject) {
			for _, text := range []string{"state", strings.Repeat("s", 300)} {
				change := putting(text, 0)
				s.change(0, []string{key("k")}, change)
				spoil(change.State)
				if got := s.get(key("k")); string(got.State) != text {
					s.fail("the state was changed after the update, and then the key has %s", show(got))
				}
			}
		}),
	law("no increment is lost between updates and swaps",
		"If some goroutines increment numbers with updates and others with swaps, no increment is lost.", func(s *subject) {
			s.incrementsAddUp(func(i int, keys []string) {
				if i%2 == 0 {
					s.increment(i, keys)
					return
				}
				reversed := slices.Clone(keys)
				slices.Reverse(reversed)
				s.transact(nil, updateOf(reversed, func(_ time.Time, found [][]byte, next []driver.Change) error {
					for i, state := range found {
						next[i] = putting(s.successor(state), 0)
					}
					return nil
				}))
			})
		}),
}

// panics requires that f panics.
func (s *subject) panics(f func()) {
	defer func() {
		if recover() == nil {
			s.fail("the panic did not reach the caller")
		}
	}()
	f()
}
