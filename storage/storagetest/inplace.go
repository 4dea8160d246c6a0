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

// epoch is when the laws of updates take place: no clock says so.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// decider is a function that decides.
type decider func(found [][]byte, next []driver.Change) error

func (d decider) Decide(found [][]byte, next []driver.Change) error { return d(found, next) }

// before is a time shortly before d has passed. In a transaction the store's clock decides,
// which runs on meanwhile.
func (s *subject) before(d time.Duration) time.Duration {
	if _, runs := s.Store.(*transacted); runs {
		return d - time.Minute
	}
	return d - 1
}

func putting(state string, ttl time.Duration) driver.Change {
	return driver.Change{Verb: driver.Put, State: []byte(state), TTL: ttl}
}

// update makes an update at epoch+at that must succeed.
func (s *subject) update(at time.Duration, keys []string, d decider) {
	if err := s.Store.(driver.InPlace).Update(s.ctx, epoch.Add(at), keys, d); err != nil {
		s.fail("Update of %q: %v", keys, err)
	}
}

// finds requires what an update is shown: "-" for an absent key, else its state.
func (s *subject) finds(at time.Duration, keys []string, want ...string) {
	s.update(at, keys, func(found [][]byte, next []driver.Change) error {
		if len(found) != len(keys) || len(next) != len(keys) {
			s.fail("an update of %d keys is shown %d states and %d changes", len(keys), len(found), len(next))
		}
		for i, state := range found {
			if (state == nil) != (want[i] == "-") || state != nil && string(state) != want[i] {
				s.fail("an update of %.40q finds %q (nil: %v), should find %q", keys[i], state, state == nil, want[i])
			}
			if next[i].Verb != driver.Keep || next[i].State != nil || next[i].TTL != 0 {
				s.fail("an update is shown changes that are not zero: %v", next[i])
			}
		}
		return nil
	})
}

// findsStates requires the states that an update is shown, where none is like an empty one.
func (s *subject) findsStates(at time.Duration, keys []string, want ...string) {
	s.update(at, keys, func(found [][]byte, _ []driver.Change) error {
		for i, state := range found {
			if string(state) != want[i] {
				s.fail("after %v %q holds %q, should hold %q", at, keys[i], state, want[i])
			}
		}
		return nil
	})
}

var inPlaceLaws = []Law{
	{
		Name:     "an update shows what is stored",
		Sentence: "A decision in place is shown each key's state, nil if and only if it is absent at that time.",
		applies:  can[driver.InPlace],
		check: func(s *subject) {
			keys := []string{key("b"), key("absent"), key("a"), key("empty")}
			s.finds(0, keys, "-", "-", "-", "-")
			s.update(0, keys, func(_ [][]byte, next []driver.Change) error {
				next[0], next[2], next[3] = putting("state b", time.Hour), putting("state a", 0), putting("", 0)
				return nil
			})
			s.finds(s.before(time.Hour), keys, "state b", "-", "state a", "")
			s.finds(time.Hour+s.Slack, keys, "-", "-", "state a", "")
		},
	},
	{
		Name:     "an update changes what it says",
		Sentence: "A decision in place puts, deletes and keeps as it says, and keeping leaves version and TTL alone.",
		applies:  can[driver.InPlace],
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
				s.fail("what an update kept went from version %d to %d", kept, after.Version)
			}
		},
	},
	{
		Name:     "an update sets the TTL",
		Sentence: "What an update put is kept for the TTL that came with it, rounded up if at all, whatever TTL the key had.",
		applies:  can[driver.InPlace],
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
			s.findsStates(s.before(ttl), keys, "state", "state", "state", "state", "state")
			s.findsStates(s.before(uneven), keys[4:], "state")
			s.findsStates(uneven+s.Slack, keys, "state", "", "state", "", "")
		},
	},
	{
		Name:     "an update writes a fresh version",
		Sentence: "What an update put has a new version: a swap from the one before is refused.",
		applies:  can[driver.InPlace],
		check: func(s *subject) {
			k := key("k")
			old := s.put(k, "before", 0)
			s.update(0, []string{k}, func(_ [][]byte, next []driver.Change) error {
				next[0] = putting("after", 0)
				return nil
			})
			if got := s.get(k); got.Version == old || absent(got) || string(got.State) != "after" {
				s.fail("updated from version %d, stored is %s", old, show(got))
			}
			if _, swapped := s.try(writing(k, old, "x", 0)); swapped {
				s.fail("a swap from before the update applied")
			}
		},
	},
	{
		Name:     "a failed update changes nothing",
		Sentence: "When a decision in place fails, nothing is changed and its very error is returned.",
		applies:  can[driver.InPlace],
		check: func(s *subject) {
			failure := errors.New("cannot decide")
			a, b := key("a"), key("b")
			version := s.put(a, "before", 0)
			err := s.Store.(driver.InPlace).Update(s.ctx, epoch, []string{a, b}, decider(func(_ [][]byte, next []driver.Change) error {
				next[0], next[1] = putting("after", 0), putting("after", 0)
				return failure
			}))
			if err != failure {
				s.fail("the decision failed with %q, the update with %v", failure, err)
			}
			s.holds(a, version, "before")
			s.lacks(b)
		},
	},
	{
		Name:     "a panic wedges nobody",
		Sentence: "A decision in place that panics changes nothing, and the next caller is served.",
		applies:  can[driver.InPlace],
		check: func(s *subject) {
			keys := []string{key("a"), key("b")}
			version := s.put(keys[0], "before", 0)
			panicked := s.panics(func() {
				s.update(0, keys, func(_ [][]byte, next []driver.Change) error {
					next[0], next[1] = putting("after", 0), putting("after", 0)
					panic("a fault of the caller's own")
				})
			})
			if !panicked {
				s.fail("the panic did not reach the caller")
			}
			s.together(1, func(int) { // which notices when this hangs
				s.holds(keys[0], version, "before")
				s.lacks(keys[1])
				s.update(0, keys, func([][]byte, []driver.Change) error { return nil })
			})
		},
	},
	{
		Name:     "an update refuses what a swap refuses",
		Sentence: "An update refuses a key twice, a key too long, a negative TTL, a verb that there is not and a context that has ended, and changes nothing.",
		applies:  can[driver.InPlace],
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
					s.fail("error %v, should be: %v", err, c.want)
				}
			}
			s.lacks(key("a"))
			s.lacks(key("b"))
		},
	},
	{
		Name:     "an update shares no buffers",
		Sentence: "An update keeps copies of the states that a decision puts.",
		applies:  can[driver.InPlace],
		check: func(s *subject) {
			for _, text := range []string{"state", strings.Repeat("s", 300)} {
				state := []byte(text)
				s.update(0, []string{key("k")}, func(_ [][]byte, next []driver.Change) error {
					next[0] = driver.Change{Verb: driver.Put, State: state}
					return nil
				})
				spoil(state)
				if got := s.get(key("k")); string(got.State) != text {
					s.fail("stored is %s", show(got))
				}
			}
		},
	},
	{
		Name:     "updates and swaps count together",
		Sentence: "When some add one in place and others by swapping, the sum is right.",
		applies:  can[driver.InPlace],
		check: func(s *subject) {
			const adders, times = 8, 20
			a, b := key("a"), key("b")
			s.put(a, "0", 0)
			s.put(b, "0", 0)
			s.together(adders, func(i int) {
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
					s.fail("%d increments made %s", adders*times, show(got))
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

func (s *subject) panics(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}
