package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// epoch is the time of the updates. No clock reads it.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// decider is a function that implements driver.Decider.
type decider func(found [][]byte, next []driver.Change) error

func (d decider) Decide(found [][]byte, next []driver.Change) error { return d(found, next) }

// making returns a decider that makes the changes and returns err.
func making(err error, changes ...driver.Change) decider {
	return func(_ [][]byte, next []driver.Change) error {
		copy(next, changes)
		return err
	}
}

func putting(state string, ttl time.Duration) driver.Change {
	return driver.Change{Verb: driver.Put, State: []byte(state), TTL: ttl}
}

// shortlyBefore returns a time shortly before d has passed. In a transaction the store's clock counts, which
// advances meanwhile.
func (s *subject) shortlyBefore(d time.Duration) time.Duration {
	if _, ok := s.Store.(*transacted); ok {
		return d - time.Minute
	}
	return d - 1
}

// update runs an update that must succeed.
func (s *subject) update(now time.Time, keys []string, d decider) {
	if err := s.Store.(driver.InPlace).Update(s.ctx, now, keys, d); err != nil {
		s.fail("Update of %q at %v: %v", keys, now, err)
	}
}

// change makes these changes at epoch+at.
func (s *subject) change(at time.Duration, keys []string, changes ...driver.Change) {
	s.update(epoch.Add(at), keys, making(nil, changes...))
}

// reading returns a decider that must read the states want, and makes changes. what describes the update. none
// stands for the state of an absent key.
func (s *subject) reading(what, none string, want []string, changes ...driver.Change) decider {
	return func(found [][]byte, next []driver.Change) error {
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
			if c.Verb != driver.Keep || c.State != nil || c.TTL != 0 {
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

var inPlaceLaws = []Law{
	law("an update reads the stored states",
		"An update reads the state of each key. The state is nil if and only if the key is absent at the time of the update.", func(s *subject) {
			keys := keys("b", "absent", "a", "empty")
			s.finds(0, keys, "-", "-", "-", "-", "-")
			s.change(0, keys, putting("state b", time.Hour), driver.Change{}, putting("state a", 0), putting("", 0))
			s.finds(s.shortlyBefore(time.Hour), keys, "-", "state b", "-", "state a", "")
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
			const ttl, uneven, long = time.Hour, time.Hour + 999*time.Millisecond + 999*time.Microsecond + 999, 48 * time.Hour
			keys := keys("longer", "shorter", "none", "one", "uneven")
			for _, ttls := range [][]time.Duration{{ttl, long, ttl, 0, 0}, {long, ttl, 0, ttl, uneven}} {
				var changes []driver.Change
				for _, ttl := range ttls {
					changes = append(changes, putting("state", ttl))
				}
				s.change(0, keys, changes...)
			}
			s.finds(s.shortlyBefore(ttl), keys, "", "state", "state", "state", "state", "state")
			s.finds(s.shortlyBefore(uneven), keys[4:], "", "state")
			s.finds(uneven+s.Slack, keys, "", "state", "", "state", "", "")
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
	law("a failed update changes nothing",
		"If the Decider returns an error, Update changes nothing and returns the same error.", func(s *subject) {
			failure := errors.New("cannot decide")
			a, b := key("a"), key("b")
			version := s.put(a, "before", 0)
			err := s.Store.(driver.InPlace).Update(s.ctx, epoch, []string{a, b}, making(failure, putting("after", 0), putting("after", 0)))
			if err != failure {
				s.fail("the Decider returned %q, but Update returned %v", failure, err)
			}
			s.holds(a, version, "before")
			s.lacks(b)
		}),
	law("a panic changes nothing and releases the lock",
		"If the Decider panics, Update changes nothing, and the next update succeeds.", func(s *subject) {
			keys := keys("a", "b")
			version := s.put(keys[0], "before", 0)
			s.panics(func() {
				s.update(epoch, keys, func(_ [][]byte, next []driver.Change) error {
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
	law("invalid updates are refused",
		"Update refuses a duplicate key, a key that is too long, a negative TTL, an unknown verb and an ended context, "+
			"and changes nothing.", func(s *subject) {
			a, b, long, valid := key("a"), key("b"), strings.Repeat("x", storage.MaxKey+1), putting("x", 0)
			refuses := func(ctx context.Context, want error, last driver.Change, keys ...string) {
				changes := append(slices.Repeat([]driver.Change{valid}, len(keys)-1), last)
				err := s.Store.(driver.InPlace).Update(ctx, epoch, keys, making(nil, changes...))
				if !errors.Is(err, want) || !errors.Is(err, storage.ErrNotApplied) {
					s.fail("Update of %.40q returned the error %v, want %v", keys, err, want)
				}
			}
			refuses(s.ctx, storage.ErrDuplicateKey, valid, a, b, a)
			refuses(s.ctx, storage.ErrKey, valid, a, long)
			refuses(s.ctx, storage.ErrSwap, putting("x", -1), a, b)
			refuses(s.ctx, storage.ErrSwap, driver.Change{Verb: driver.Delete + 1, State: []byte("x")}, a, b)
			refuses(s.ended(), context.Canceled, valid, a, b)
			s.lacks(a, b)
		}),
	law("an update copies new states",
		"Update stores copies of the states that the Decider puts.", func(s *subject) {
			for _, text := range []string{"state", strings.Repeat("s", 300)} {
				change := putting(text, 0)
				s.change(0, []string{key("k")}, change)
				spoil(change.State)
				if got := s.get(key("k")); string(got.State) != text {
					s.fail("the Decider changed its state after the update, and then the key has %s", show(got))
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
				s.update(epoch, reversed, func(found [][]byte, next []driver.Change) error {
					for i, state := range found {
						next[i] = putting(s.successor(state), 0)
					}
					return nil
				})
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

// updateTimeLaws are not laws of transactions, which have another clock.
var updateTimeLaws = []Law{
	law("updates use their own time",
		"In an update, records expire by the time argument of the call, not by any clock.", func(s *subject) {
			const ttl = time.Hour
			for _, year := range []int{1, 1969, 2000, 2100, 2261, 9999} {
				written, k := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), key(fmt.Sprint("year ", year))
				finds := func(now time.Time, want string, changes ...driver.Change) {
					s.update(now, []string{k}, s.reading(fmt.Sprint("an update at ", now), "", []string{want}, changes...))
				}
				finds(written, "", putting("state", ttl))
				s.Advance(2 * ttl)
				finds(written.Add(1), "state")
				finds(written.Add(ttl-1), "state")
				if year > 1969 && year < 2262 { // a store may treat all earlier times, and all later times, as equal
					finds(written.Add(ttl+s.Slack), "")
				}
			}
		}),
}
