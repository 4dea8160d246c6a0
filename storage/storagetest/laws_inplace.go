package storagetest

import (
	"context"
	"errors"
	"strconv"
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

// shortlyBefore returns a time shortly before d has passed. In a transaction the store's clock counts, which
// advances meanwhile.
func (s *subject) shortlyBefore(d time.Duration) time.Duration {
	if _, ok := s.Store.(*transacted); ok {
		return d - time.Minute
	}
	return d - 1
}

func putting(state string, ttl time.Duration) driver.Change {
	return driver.Change{Verb: driver.Put, State: []byte(state), TTL: ttl}
}

// update runs an update at epoch+at that must succeed.
func (s *subject) update(at time.Duration, keys []string, d decider) {
	if err := s.Store.(driver.InPlace).Update(s.ctx, epoch.Add(at), keys, d); err != nil {
		s.fail("Update of %q: %v", keys, err)
	}
}

// finds requires that an update at epoch+at reads the states want. "-" stands for an absent key.
func (s *subject) finds(at time.Duration, keys []string, want ...string) {
	s.update(at, keys, func(found [][]byte, next []driver.Change) error {
		if len(found) != len(keys) || len(next) != len(keys) {
			s.fail("an update of %d keys received %d states and %d changes", len(keys), len(found), len(next))
		}
		for i, state := range found {
			if (state == nil) != (want[i] == "-") || state != nil && string(state) != want[i] {
				s.fail("an update of %.40q found the state %q (nil: %v), want %q", keys[i], state, state == nil, want[i])
			}
			if next[i].Verb != driver.Keep || next[i].State != nil || next[i].TTL != 0 {
				s.fail("an update received a change that is not zero: %v", next[i])
			}
		}
		return nil
	})
}

// findsStates is finds without a difference between an absent key and an empty state.
func (s *subject) findsStates(at time.Duration, keys []string, want ...string) {
	s.update(at, keys, func(found [][]byte, _ []driver.Change) error {
		for i, state := range found {
			if string(state) != want[i] {
				s.fail("after %v %q has the state %q, want %q", at, keys[i], state, want[i])
			}
		}
		return nil
	})
}

var inPlaceLaws = []Law{
	{
		Name:     "an update reads the stored states",
		Sentence: "An update reads the state of each key. The state is nil if and only if the key is absent at the time of the update.",
		check: func(s *subject) {
			keys := []string{key("b"), key("absent"), key("a"), key("empty")}
			s.finds(0, keys, "-", "-", "-", "-")
			s.update(0, keys, func(_ [][]byte, next []driver.Change) error {
				next[0], next[2], next[3] = putting("state b", time.Hour), putting("state a", 0), putting("", 0)
				return nil
			})
			s.finds(s.shortlyBefore(time.Hour), keys, "state b", "-", "state a", "")
			s.finds(time.Hour+s.Slack, keys, "-", "-", "state a", "")
		},
	},
	{
		Name:     "an update applies its changes",
		Sentence: "An update applies Put, Delete and Keep. Keep does not change version or TTL.",
		check: func(s *subject) {
			keys := []string{key("put"), key("delete"), key("keep"), key("delete nothing"), key("keep for ever")}
			kept := s.put(keys[4], "3", 0)
			s.update(0, keys, func(_ [][]byte, next []driver.Change) error {
				next[0], next[1], next[2] = putting("0", 0), putting("1", 0), putting("2", time.Hour)
				return nil
			})
			s.update(time.Minute, keys, func(_ [][]byte, next []driver.Change) error {
				next[0], next[1].Verb, next[3].Verb = putting("changed", 0), driver.Delete, driver.Delete
				next[2].State, next[2].TTL = []byte("ignored"), 48*time.Hour
				return nil
			})
			s.findsStates(time.Minute, keys, "changed", "", "2", "", "3")
			s.findsStates(time.Hour+s.Slack, keys, "changed", "", "", "", "3")
			if after := s.get(key("keep for ever")); after.Version != kept {
				s.fail("Keep changed the version from %d to %d", kept, after.Version)
			}
		},
	},
	{
		Name:     "an update sets the TTL",
		Sentence: "A record that an update puts is kept for its new TTL, whatever TTL the key had. The TTL is never rounded down.",
		check: func(s *subject) {
			const ttl, uneven, long = time.Hour, time.Hour + 999*time.Millisecond + 999*time.Microsecond + 999, 48 * time.Hour
			keys := []string{key("longer"), key("shorter"), key("none"), key("one"), key("uneven")}
			put := func(ttls ...time.Duration) decider {
				return func(_ [][]byte, next []driver.Change) error {
					for i, ttl := range ttls {
						next[i] = putting("state", ttl)
					}
					return nil
				}
			}
			s.update(0, keys, put(ttl, long, ttl, 0, 0))
			s.update(0, keys, put(long, ttl, 0, ttl, uneven))
			s.findsStates(s.shortlyBefore(ttl), keys, "state", "state", "state", "state", "state")
			s.findsStates(s.shortlyBefore(uneven), keys[4:], "state")
			s.findsStates(uneven+s.Slack, keys, "state", "", "state", "", "")
		},
	},
	{
		Name:     "an update writes a new version",
		Sentence: "A record that an update puts has a new version: a swap from the earlier version is refused.",
		check: func(s *subject) {
			k := key("k")
			old := s.put(k, "before", 0)
			s.update(0, []string{k}, func(_ [][]byte, next []driver.Change) error {
				next[0] = putting("after", 0)
				return nil
			})
			if got := s.get(k); got.Version == old || absent(got) || string(got.State) != "after" {
				s.fail("an update of version %d stored %s", old, show(got))
			}
			if _, swapped := s.try(writing(k, old, "x", 0)); swapped {
				s.fail("a swap from the version before the update applied")
			}
		},
	},
	{
		Name:     "a failed update changes nothing",
		Sentence: "If the Decider returns an error, Update changes nothing and returns the same error.",
		check: func(s *subject) {
			failure := errors.New("cannot decide")
			a, b := key("a"), key("b")
			version := s.put(a, "before", 0)
			err := s.Store.(driver.InPlace).Update(s.ctx, epoch, []string{a, b}, decider(func(_ [][]byte, next []driver.Change) error {
				next[0], next[1] = putting("after", 0), putting("after", 0)
				return failure
			}))
			if err != failure {
				s.fail("the Decider returned %q, but Update returned %v", failure, err)
			}
			s.holds(a, version, "before")
			s.lacks(b)
		},
	},
	{
		Name:     "a panic changes nothing and releases the lock",
		Sentence: "If the Decider panics, Update changes nothing, and the next update succeeds.",
		check: func(s *subject) {
			keys := []string{key("a"), key("b")}
			version := s.put(keys[0], "before", 0)
			panicked := s.panics(func() {
				s.update(0, keys, func(_ [][]byte, next []driver.Change) error {
					next[0], next[1] = putting("after", 0), putting("after", 0)
					panic("a bug of the caller")
				})
			})
			if !panicked {
				s.fail("the panic did not reach the caller")
			}
			s.concurrently(1, func(int) { // detects a call that hangs
				s.holds(keys[0], version, "before")
				s.lacks(keys[1])
				s.update(0, keys, func([][]byte, []driver.Change) error { return nil })
			})
		},
	},
	{
		Name:     "invalid updates are refused",
		Sentence: "Update refuses a duplicate key, a key that is too long, a negative TTL, an unknown verb and an ended context, and changes nothing.",
		check: func(s *subject) {
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			for _, c := range []struct {
				ctx  context.Context
				keys []string
				last driver.Change
				want error
			}{
				{s.ctx, []string{key("a"), key("b"), key("a")}, putting("x", 0), storage.ErrDuplicateKey},
				{s.ctx, []string{key("a"), strings.Repeat("x", storage.MaxKey+1)}, putting("x", 0), storage.ErrKey},
				{s.ctx, []string{key("a"), key("b")}, putting("x", -1), storage.ErrSwap},
				{s.ctx, []string{key("a"), key("b")}, driver.Change{Verb: driver.Delete + 1, State: []byte("x")}, storage.ErrSwap},
				{ended, []string{key("a"), key("b")}, putting("x", 0), context.Canceled},
			} {
				err := s.Store.(driver.InPlace).Update(c.ctx, epoch, c.keys, decider(func(_ [][]byte, next []driver.Change) error {
					for i := range next {
						next[i] = putting("x", 0)
					}
					next[len(next)-1] = c.last
					return nil
				}))
				if !errors.Is(err, c.want) || !errors.Is(err, storage.ErrNotApplied) {
					s.fail("Update of %.40q returned the error %v, want %v", c.keys, err, c.want)
				}
			}
			s.lacks(key("a"))
			s.lacks(key("b"))
		},
	},
	{
		Name:     "an update copies new states",
		Sentence: "Update stores copies of the states that the Decider puts.",
		check: func(s *subject) {
			for _, text := range []string{"state", strings.Repeat("s", 300)} {
				state := []byte(text)
				s.update(0, []string{key("k")}, func(_ [][]byte, next []driver.Change) error {
					next[0] = driver.Change{Verb: driver.Put, State: state}
					return nil
				})
				spoil(state)
				if got := s.get(key("k")); string(got.State) != text {
					s.fail("the Decider changed its state after the update, and then the key has %s", show(got))
				}
			}
		},
	},
	{
		Name:     "no increment is lost between updates and swaps",
		Sentence: "If some goroutines increment two numbers with updates and others with swaps, no increment is lost.",
		check: func(s *subject) {
			const adders, times = 8, 20
			a, b := key("a"), key("b")
			s.put(a, "0", 0)
			s.put(b, "0", 0)
			s.concurrently(adders, func(i int) {
				for range times {
					if i%2 == 0 {
						for !s.increment(a, b) {
						}
					} else {
						s.incrementInPlace(b, a)
					}
				}
			})
			for _, k := range []string{a, b} {
				if got := s.get(k); string(got.State) != strconv.Itoa(adders*times) {
					s.fail("after %d increments the key has %s", adders*times, show(got))
				}
			}
		},
	},
}

func (s *subject) incrementInPlace(keys ...string) {
	s.update(0, keys, func(found [][]byte, next []driver.Change) error {
		for i, state := range found {
			next[i] = putting(s.successor(storage.Record{Version: 1, State: state}), 0)
		}
		return nil
	})
}

// panics reports whether f panics.
func (s *subject) panics(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}
