package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/storage"
)

// swapLaws are the laws of Load and CompareAndSwap.
var swapLaws = []Law{
	law("Load keeps the order of keys",
		"Load returns records in the order of its keys, which may repeat or be none. The record of an absent key is the zero Record.", func(s *subject) {
			s.load()
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
	law("two stores share no key",
		"Stores with different tables or prefixes in one database share no key.", func(s *subject) {
			other, k, deleted := s.on(s.Other), key("k"), key("deleted")
			one, two := s.put(k, "one", year), other.put(k, "two", 0)
			kept := other.put(deleted, "two", 0)
			other.conflicts("has the version of the other store", writing(k, one, "x", 0))
			s.swap(deleting(deleted, s.put(deleted, "one", 0)))
			s.holds(k, one, "one")
			s.Advance(year + s.Slack)
			other.holds(k, two, "two")
			other.holds(deleted, kept, "two")
		}),
	law("a swap needs the stored version",
		"A swap applies if and only if Old is the stored version.", func(s *subject) {
			k, none := key("k"), key("absent")
			first := s.put(k, "first", 0)
			same := s.replace(k, first, "first") // a write of the same state changes the version
			second := s.replace(k, same, "second")
			s.conflicts("creates an existing record", writing(k, 0, "x", 0))
			s.conflicts("has a replaced version", writing(k, same, "x", 0))
			s.conflicts("has the first version", writing(k, first, "x", 0))
			s.conflicts("has an unknown version", writing(k, storage.NewVersion(), "x", 0))
			s.conflicts("replaces an absent record", writing(none, storage.NewVersion(), "x", 0))
			s.conflicts("deletes with an older version", deleting(k, first))
			s.conflicts("deletes an absent record", deleting(none, first))
			s.conflicts("requires absence of the record", deleting(k, 0))
			s.holds(k, second, "second")
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
			const ttl, long = hour, 24 * hour
			ttls := lifetimes{"longer": ttl, "for ever": ttl, "shorter": long, "beside": ttl}
			beside := s.put(key("beside"), "beside", ttl)
			for name, refused := range (lifetimes{"longer": long, "for ever": 0, "shorter": 1e9}) {
				s.put(key(name), name, ttls[name])
				s.conflicts("has a version that is not stored", writing(key("beside"), beside, "x", long), writing(key(name), storage.NewVersion(), "x", refused))
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
			for _, swaps := range [][]storage.Swap{{writing(key("good"), good, "x", 0), writing(key("b"), 0, "x", 0)}, {}} {
				if current, swapped := s.try(swaps...); current != nil || !swapped {
					s.fail("a call with %d swaps that match returned %d records and swapped %v", len(swaps), len(current), swapped)
				}
			}
		}),
	law("the zero record deletes",
		"A swap to the zero Record deletes at once. From Old 0 to the zero Record it requires that the key is absent.", func(s *subject) {
			k, beside := key("k"), key("beside")
			deletion := deleting(k, s.put(k, "state", 48*hour))
			deletion.TTL = hour // has no effect
			create := writing(beside, 0, "beside", 0)
			s.swap(deletion, create)
			s.lacks(k)
			s.holds(beside, create.New.Version, "beside")
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
				creates[i] = writing(keys[i], 0, fmt.Sprint("state ", i), hour)
				created[i] = creates[i].New
				replaces[i] = writing(keys[i], created[i].Version, "x", hour)
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
			refused := func(want error, swaps ...storage.Swap) {
				current, swapped, err := s.Store.CompareAndSwap(s.ctx, swaps...)
				if !errors.Is(err, want) || !errors.Is(err, storage.ErrNotApplied) || swapped || current != nil {
					s.fail("CompareAndSwap of %.40q returned %d records, swapped %v and the error %v, want %v", keysOf(swaps), len(current), swapped, err, want)
				}
			}
			refused(storage.ErrDuplicateKey, writing(a, 0, "x", 0), valid, deleting(a, 0))
			refused(storage.ErrKey, writing(long, 0, "x", 0))
			refused(storage.ErrKey, valid, writing(long, 0, "x", 0))
			refused(storage.ErrSwap, valid, writing(key("k"), 0, "x", -1))
			refused(storage.ErrSwap, valid, storage.Swap{Key: key("k"), New: storage.Record{State: []byte("x")}})
			refused(storage.ErrSwap, valid, unknown)
			if _, _, err := s.Store.Load(s.ctx, "valid", long); !errors.Is(err, storage.ErrKey) {
				s.fail("Load of a key of %d bytes returned the error %v", len(long), err)
			}
			s.lacks(a, "valid", long[1:], key("k"))
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
	law("states are opaque",
		"A state may be any bytes, or none. Load returns it unchanged. A record with an empty state exists.", func(s *subject) {
			states := []string{
				"", "\x00", "\x00\x00", "a\x00", "\x00a", "a\x00b", "\xff", "\xff\xfe\x00", "\xc3\x28", "\n", "\r\n", " ", "0", "007",
				"1e3", "-1", "nil", "NULL", "'", `\`, `\x00`, `\000`, "{}", "%s", everyByte, strings.Repeat("\x00", 300), strings.Repeat(everyByte, 256),
			}
			for i, state := range states {
				k := key(fmt.Sprint("state ", i))
				s.holds(k, s.put(k, state, 0), state)
				s.conflicts("creates an existing record", writing(k, 0, "x", 0))
			}
			k := key("nil")
			create := writing(k, 0, "", 0)
			create.New.State = nil
			s.swap(create)
			s.holds(k, s.replace(k, s.replace(k, create.New.Version, "full"), ""), "")
		}),
	law("keys are opaque",
		"A key may be any bytes, up to MaxKey of them. Different keys have different records.", func(s *subject) {
			longest := strings.Repeat("x", storage.MaxKey-1)
			keys := []string{
				"", "\x00", "\x00\x00", "a", "A", "a\x00", "\x00a", "a\x00b", "a\x00c", "\xff", "\xff\xff", "\xc3\x28", "\xef\xbf\xbd", "é", "e\u0301",
				"a ", " a", "a\n", "a\r\n", "{a}", "{b}", "{", "}{", "{}", "a{b}c", "a{b}d", "a:b", "a:b:c", "a/b", "a'b", `a"b`, `a\b`, `a\\b`, `\x61`, `\141`,
				"%", "_", "*", "?", "[a]", "0", "00", "1", "1.0", "1e0", "NULL", "nil", "k", "h", longest, longest + "x", longest + "y", longest + "\x00",
			}
			versions := make([]storage.Version, len(keys))
			for i, k := range keys {
				versions[i] = s.put(k, fmt.Sprint("state of key ", i), 0)
			}
			for i, k := range keys {
				s.holds(k, versions[i], fmt.Sprint("state of key ", i))
			}
		}),
	law("versions are opaque",
		"A version has 64 significant bits.", func(s *subject) {
			for i, version := range []storage.Version{1, 255, 1<<31 - 1, 1 << 32, 1 << 53, 1<<53 + 1, 1<<63 - 1, 1 << 63, 1<<64 - 2, 1<<64 - 1} {
				k := key(fmt.Sprint("version ", i))
				s.swap(storage.Swap{Key: k, New: storage.Record{Version: version, State: []byte("state")}})
				s.holds(k, version, "state")
				for _, neighbour := range []storage.Version{version ^ 1, version - 1, version + 1, version ^ 1<<63, version ^ 1<<32} {
					s.conflicts(fmt.Sprintf("is from version %d to a record of version %d", neighbour, version), writing(k, neighbour, "x", 0))
				}
				s.swap(writing(k, version, "next", 0))
			}
		}),
}

// everyByte has each byte once.
var everyByte = func() string {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	return string(every)
}()

// refusesAll requires that a swap of several keys changes none of them, if the Old of the key with the index
// stale is not stored. The swap replaces records, or creates them.
func (s *subject) refusesAll(names string, stale int, create bool) {
	swaps, before := make([]storage.Swap, len(names)), make([]storage.Record, len(names))
	for i := range names {
		k := key(fmt.Sprint(names, " ", stale, create, i))
		if !create || i == stale {
			before[i] = storage.Record{Version: s.put(k, "before", 0), State: []byte("before")}
		}
		swaps[i] = writing(k, before[i].Version, "after", 0)
	}
	swaps[stale].Old = 0
	if !create {
		swaps[stale].Old = storage.NewVersion()
	}
	s.conflicts(fmt.Sprintf("has %d keys, and the Old of key %d is not the stored version", len(swaps), stale+1), swaps...)
	s.same("a refused swap", s.load(keysOf(swaps)...), before...)
}

// recordsShareNoMemory requires that a caller can change and append to each returned state.
func (s *subject) recordsShareNoMemory(what string, records []storage.Record) {
	for i, r := range records {
		others := slices.Delete(slices.Clone(records), i, i+1)
		before := fmt.Sprintf("%q", others)
		spoil(append(r.State, r.State...)) // overwrites the memory behind the state, unless append copies it
		spoil(r.State)
		if after := fmt.Sprintf("%q", others); after != before {
			s.fail("a write to record %d of %d of %s changed the other records from %s to %s", i, len(records), what, before, after)
		}
	}
}

func spoil(b []byte) {
	for i := range b {
		b[i] = '#'
	}
}
