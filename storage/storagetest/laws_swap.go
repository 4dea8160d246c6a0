package storagetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// swapLaws are the laws of Load and CompareAndSwap.
var swapLaws = []Law{
	law("Load keeps the order of keys",
		"Load returns records in the order of its keys, which may repeat. The record of an absent key is the zero Record.", func(s *subject) {
			versions := map[string]storage.Version{}
			for _, name := range []string{"b", "a", "c"} {
				versions[name] = s.put(key(name), name, 0)
			}
			names := []string{"c", "absent", "a", "c", "b", "absent"}
			for i, r := range s.load(keys(names...)...) {
				name := names[i]
				if r.Version != versions[name] || absent(r) != (r.State == nil) || !absent(r) && string(r.State) != name {
					s.fail("record %d of %q has version %d and the state %q (nil: %v)", i, names, r.Version, r.State, r.State == nil)
				}
			}
		}),
	law("empty calls succeed",
		"A Load of no keys and a CompareAndSwap without swaps succeed.", func(s *subject) {
			s.load()
			if current, swapped := s.try(); !swapped || len(current) != 0 {
				s.fail("CompareAndSwap() returned %d records and swapped %v", len(current), swapped)
			}
		}),
	law("two stores share no key",
		"Stores with different tables or prefixes in one database share no key.", func(s *subject) {
			other, k, deleted := s.on(s.Other), key("k"), key("deleted")
			one, two := s.put(k, "one", time.Hour), other.put(k, "two", 0)
			kept := other.put(deleted, "two", 0)
			other.conflicts("has the version of the other store", writing(k, one, "x", 0))
			s.swap(deleting(deleted, s.put(deleted, "one", 0)))
			s.holds(k, one, "one")
			other.holds(k, two, "two")
			other.holds(deleted, kept, "two")
			s.Advance(time.Hour + s.Slack)
			other.holds(k, two, "two")
		}),
	law("a swap needs the stored version",
		"A swap applies if and only if Old is the stored version.", func(s *subject) {
			k, none := key("k"), key("absent")
			first := s.put(k, "first", 0)
			same := writing(k, first, "first", 0) // a write of the same state changes the version
			s.swap(same)
			second := writing(k, same.New.Version, "second", 0)
			s.swap(second)
			s.holds(k, second.New.Version, "second")
			s.conflicts("creates an existing record", writing(k, 0, "x", 0))
			s.conflicts("has a replaced version", writing(k, same.New.Version, "x", 0))
			s.conflicts("has the first version", writing(k, first, "x", 0))
			s.conflicts("has an unknown version", writing(k, storage.NewVersion(), "x", 0))
			s.conflicts("replaces an absent record", writing(none, storage.NewVersion(), "x", 0))
			s.conflicts("deletes with an older version", deleting(k, first))
			s.conflicts("deletes an absent record", deleting(none, first))
			s.conflicts("requires absence of the record", deleting(k, 0))
			s.holds(k, second.New.Version, "second")
		}),
	law("all or nothing",
		"If the Old of any key is not the stored version, CompareAndSwap is refused and changes no version, state or TTL.", func(s *subject) {
			for n := 1; n <= 4; n++ {
				for stale := range n {
					for _, names := range []string{"abcd", "dcba"} { // rising and falling
						s.refusesAll(names[:n], stale, false)
						s.refusesAll(names[:n], stale, true)
					}
				}
			}
			const ttl, long = time.Hour, 24 * time.Hour
			ttls := map[string]time.Duration{"longer": ttl, "for ever": ttl, "shorter": long, "beside": ttl}
			refused := map[string]time.Duration{"longer": long, "for ever": 0, "shorter": time.Second}
			beside := s.put(key("beside"), "beside", ttl)
			for name, ttl := range refused {
				s.put(key(name), name, ttls[name])
				s.conflicts("has a version that is not stored", writing(key("beside"), beside, "x", long), writing(key(name), storage.NewVersion(), "x", ttl))
			}
			s.last(ttls)
		}),
	law("a conflict returns the stored records",
		"A refused CompareAndSwap returns the stored record of each key, in the order of its swaps. One that applies returns "+
			"no records.", func(s *subject) {
			good, stale := s.put(key("good"), "good state", 0), s.put(key("a stale one"), "stale state", 0)
			current, swapped := s.try(
				writing(key("x"), storage.NewVersion(), "x", 0),
				writing(key("good"), good, "x", 0),
				writing(key("a stale one"), storage.NewVersion(), "x", 0),
				writing(key("b"), 0, "x", 0))
			if swapped {
				return // another law requires the refusal
			}
			s.same("the records of a conflict", current, storage.Record{}, storage.Record{Version: good, State: []byte("good state")},
				storage.Record{Version: stale, State: []byte("stale state")}, storage.Record{})
			if current, _ := s.try(writing(key("good"), good, "x", 0), writing(key("b"), 0, "x", 0)); current != nil {
				s.fail("a swap that applied returned %d records", len(current))
			}
		}),
	law("the zero record deletes",
		"A swap to the zero Record deletes at once. From Old 0 to the zero Record it requires that the key is absent.", func(s *subject) {
			k, beside := key("k"), key("beside")
			deletion := deleting(k, s.put(k, "state", 48*time.Hour))
			deletion.TTL = time.Hour // has no effect
			s.swap(deletion, writing(beside, 0, "beside", 0))
			s.lacks(k)
			if absent(s.get(beside)) {
				s.fail("a record that was created together with a deletion is absent")
			}
			s.swap(deleting(k, 0))
			s.lacks(k)
			s.put(k, "again", 0)
		}),
	law("a call may have many keys",
		"A Load and a CompareAndSwap may have more than a thousand keys.", func(s *subject) {
			const n = 1100 // the limiter writes up to 1024 decisions together
			keys, creates, replaces, created := make([]string, n), make([]storage.Swap, n), make([]storage.Swap, n), make([]storage.Record, n)
			for i := range keys {
				keys[i] = key(fmt.Sprintf("many %04d", i))
				creates[i] = writing(keys[i], 0, fmt.Sprint("state ", i), time.Hour)
				created[i] = creates[i].New
				replaces[i] = writing(keys[i], created[i].Version, "x", time.Hour)
			}
			s.swap(creates...)
			s.same("Load of many keys", s.load(keys...), created...)
			replaces[n-1].Old = storage.NewVersion()
			if current, swapped := s.try(replaces...); swapped || len(current) != n {
				s.fail("a swap of %d keys with a conflict of the last key returned swapped %v and %d records", n, swapped, len(current))
			}
		}),
	law("invalid swaps are refused",
		"A key that occurs twice is refused with ErrDuplicateKey, and one of more than MaxKey bytes with ErrKey. A negative TTL, a state "+
			"without a version and an unknown priority are refused with ErrSwap. Nothing is written.", func(s *subject) {
			a, long, valid, unknown := key("a"), strings.Repeat("x", storage.MaxKey+1), writing("valid", 0, "x", 0), writing(key("k"), 0, "x", 0)
			unknown.Priority = storage.UsedUp + 1
			s.refuses(storage.ErrDuplicateKey, writing(a, 0, "x", 0), writing(a, 0, "x", 0))
			s.refuses(storage.ErrDuplicateKey, writing(a, 0, "x", 0), valid, deleting(a, 0))
			s.refuses(storage.ErrKey, writing(long, 0, "x", 0))
			s.refuses(storage.ErrKey, valid, writing(long, 0, "x", 0))
			s.refuses(storage.ErrSwap, valid, writing(key("k"), 0, "x", -1))
			s.refuses(storage.ErrSwap, valid, storage.Swap{Key: key("k"), New: storage.Record{State: []byte("x")}})
			s.refuses(storage.ErrSwap, valid, unknown)
			if _, _, err := s.Store.Load(s.ctx, "valid", long); !errors.Is(err, storage.ErrKey) {
				s.fail("Load of a key of %d bytes returned the error %v", len(long), err)
			}
			s.lacks(a, "valid", long[1:], key("k"))
		}),
	law("a cancelled call writes nothing",
		"If its context ended before the call, CompareAndSwap writes nothing. The error wraps the context's error and "+
			"ErrNotApplied.", func(s *subject) {
			k := key("k")
			_, swapped, err := s.Store.CompareAndSwap(s.ended(), writing(k, 0, "x", 0))
			if swapped || !errors.Is(err, context.Canceled) || !errors.Is(err, storage.ErrNotApplied) {
				s.fail("CompareAndSwap returned swapped %v and the error %v", swapped, err)
			}
			if _, _, err := s.Store.Load(s.ended(), k); !errors.Is(err, context.Canceled) {
				s.fail("Load returned the error %v", err)
			}
			s.lacks(k)
		}),
	law("a swap that the database drops is an error",
		"If the database drops the write of a key, CompareAndSwap returns an error that wraps ErrNotApplied, and changes no key.", func(s *subject) {
			if s.DropWrites == nil {
				return
			}
			old, created, beside := key("dropped old"), key("dropped new"), key("beside")
			version := s.put(old, "old", 0)
			s.DropWrites(old)
			s.DropWrites(created)
			for what, w := range map[string]storage.Swap{
				"replaces": writing(old, version, "x", 0), "deletes": deleting(old, version), "creates": writing(created, 0, "x", 0),
			} {
				for _, swaps := range [][]storage.Swap{{w}, {w, writing(beside, 0, "x", 0)}} {
					if _, swapped, err := s.Store.CompareAndSwap(s.ctx, swaps...); swapped || !errors.Is(err, storage.ErrNotApplied) {
						s.fail("the database dropped a write that %s a record, and CompareAndSwap of %d keys returned swapped %v and the error %v", what, len(swaps), swapped, err)
					}
					s.holds(old, version, "old")
					s.lacks(created, beside)
				}
			}
		}),
	law("no increment is lost",
		"If many goroutines create and increment one or two numbers with Load and CompareAndSwap concurrently, no increment is lost.", func(s *subject) {
			s.incrementsAddUp(s.increment)
		}),
	law("swaps in opposite orders do not deadlock",
		"Concurrent calls of CompareAndSwap with the same keys in opposite orders all end without an error.", func(s *subject) {
			const swappers, times = 6, 20
			names := []string{"a", "b", "c"}
			s.concurrently(swappers, func(i int) {
				pair := keys(names[i%3], names[(i+1+i/3)%3])
				for range times {
					now := s.load(pair...)
					if _, _, err := s.Store.CompareAndSwap(s.ctx, writing(pair[0], now[0].Version, "x", 0), writing(pair[1], now[1].Version, "x", 0)); err != nil {
						s.fail("a swap of %q concurrent with swaps in other orders: %v", pair, err)
					}
				}
			})
		}),
}

// refusesAll requires that a swap of several keys changes none of them, if the Old of the key with the index
// stale is not stored. The swap replaces records, or creates them.
func (s *subject) refusesAll(names string, stale int, create bool) {
	swaps, versions := make([]storage.Swap, len(names)), make([]storage.Version, len(names))
	for i := range names {
		k := key(fmt.Sprint(names, " ", stale, create, i))
		if !create || i == stale {
			versions[i] = s.put(k, "before", 0)
		}
		swaps[i] = writing(k, versions[i], "after", 0)
	}
	swaps[stale].Old = 0
	if !create {
		swaps[stale].Old = storage.NewVersion()
	}
	s.conflicts(fmt.Sprintf("has %d keys, and the Old of key %d is not the stored version", len(swaps), stale+1), swaps...)
	for i, version := range versions {
		if got := s.get(swaps[i].Key); got.Version != version || version != 0 && string(got.State) != "before" {
			s.fail("a refused swap of %d keys has changed key %d", len(swaps), i+1)
		}
	}
}

// refuses requires that CompareAndSwap returns an error that wraps want and ErrNotApplied.
func (s *subject) refuses(want error, swaps ...storage.Swap) {
	current, swapped, err := s.Store.CompareAndSwap(s.ctx, swaps...)
	if !errors.Is(err, want) || !errors.Is(err, storage.ErrNotApplied) || swapped || current != nil {
		s.fail("CompareAndSwap of %.40q returned %d records, swapped %v and the error %v, want %v", keysOf(swaps), len(current), swapped, err, want)
	}
}

// incrementsAddUp requires that no increment is lost if several goroutines call increment, which adds one to the
// numbers under one or two keys. An absent key has the number 0. i is the number of the goroutine.
func (s *subject) incrementsAddUp(increment func(i int, keys []string)) {
	const rounds, adders, times = 20, 8, 2
	for round := range rounds {
		keys := keys(fmt.Sprint("a ", round), fmt.Sprint("b ", round))[:1+round%2] // stores may treat a single key in another way
		s.concurrently(adders, func(i int) {
			for range times {
				increment(i, keys)
			}
		})
		for _, r := range s.load(keys...) {
			if string(r.State) != strconv.Itoa(adders*times) {
				s.fail("after %d increments the key has %s", adders*times, show(r))
			}
		}
	}
}

// increment adds one to the numbers with a swap. It retries after conflicts.
func (s *subject) increment(_ int, keys []string) {
	for swapped := false; !swapped; {
		var swaps []storage.Swap
		for i, r := range s.load(keys...) {
			swaps = append(swaps, writing(keys[i], r.Version, s.successor(r.State), 0))
		}
		_, swapped = s.try(swaps...)
	}
}

// successor returns the next number after the one in state.
func (s *subject) successor(state []byte) string {
	n, err := strconv.Atoi(cmp.Or(string(state), "0"))
	if err != nil {
		s.fail("the state of the key should be a number, but is %.40q", state)
	}
	return strconv.Itoa(n + 1)
}
