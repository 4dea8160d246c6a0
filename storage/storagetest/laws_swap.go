package storagetest

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

var swapLaws = []Law{
	{
		Name:     "a swap needs the stored version",
		Sentence: "A swap applies if and only if Old is the stored version.",
		check: func(s *subject) {
			k, none := key("k"), key("absent")
			first := s.put(k, "first", 0)
			same := writing(k, first, "first", 0) // a write of the same state changes the version
			s.swap(same)
			second := writing(k, same.New.Version, "second", 0)
			s.swap(second)
			s.holds(k, second.New.Version, "second")
			for name, stale := range map[string]storage.Swap{
				"creates an existing record":     writing(k, 0, "x", 0),
				"has a replaced version":         writing(k, same.New.Version, "x", 0),
				"has the first version":          writing(k, first, "x", 0),
				"has an unknown version":         writing(k, storage.NewVersion(), "x", 0),
				"replaces an absent record":      writing(none, storage.NewVersion(), "x", 0),
				"deletes with an older version":  deleting(k, first),
				"deletes an absent record":       deleting(none, first),
				"requires absence of the record": deleting(k, 0),
			} {
				if _, swapped := s.try(stale); swapped {
					s.fail("a swap applied that %s", name)
				}
			}
			s.holds(k, second.New.Version, "second")
		},
	},
	{
		Name:     "a refused swap changes nothing",
		Sentence: "A refused swap does not change version, state or TTL.",
		check: func(s *subject) {
			const ttl, long = time.Hour, 48 * time.Hour
			stale := storage.NewVersion()
			versions := map[string]storage.Version{}
			for name, ttl := range map[string]time.Duration{"longer": ttl, "for ever": ttl, "beside": ttl, "shorter": long} {
				versions[name] = s.put(key(name), name, ttl)
			}
			for _, refused := range [][]storage.Swap{
				{writing(key("longer"), stale, "refused", long)},
				{writing(key("for ever"), 0, "refused", 0)},
				{writing(key("shorter"), stale, "refused", time.Second)},
				{writing(key("absent"), stale, "refused", 0), writing(key("beside"), versions["beside"], "refused", long)},
			} {
				if _, swapped := s.try(refused...); swapped {
					return // another law requires the refusal
				}
			}
			for name, version := range versions {
				s.holds(key(name), version, name)
			}
			s.Advance(ttl + s.Slack)
			s.holds(key("shorter"), versions["shorter"], "shorter")
			s.expired("longer", "for ever", "beside")
		},
	},
	{
		Name:     "all or nothing",
		Sentence: "If the Old of any key is not the stored version, CompareAndSwap is refused and changes no key.",
		check: func(s *subject) {
			s.eachConflict(func(swaps []storage.Swap, versions []storage.Version, stale int) {
				if _, swapped := s.try(swaps...); swapped {
					s.fail("a swap of %d keys applied, but the Old of key %d was not the stored version", len(swaps), stale+1)
				}
				for i, version := range versions {
					if got := s.get(swaps[i].Key); got.Version != version {
						s.fail("a refused swap of %d keys has changed key %d", len(swaps), i+1)
					}
				}
			})
		},
	},
	{
		Name:     "a conflict returns the stored records",
		Sentence: "A refused swap returns the stored record of each of its keys, in their order. A swap that applies returns no records.",
		check: func(s *subject) {
			good, stale := s.put(key("good"), "good state", 0), s.put(key("a stale one"), "stale state", 0)
			current, swapped := s.try(
				writing(key("x"), storage.NewVersion(), "x", 0),
				writing(key("good"), good, "x", 0),
				writing(key("a stale one"), storage.NewVersion(), "x", 0),
				writing(key("b"), 0, "x", 0))
			if swapped {
				return // another law requires the refusal
			}
			want := []storage.Record{{}, {Version: good, State: []byte("good state")}, {Version: stale, State: []byte("stale state")}, {}}
			if len(current) != len(want) {
				s.fail("%d records for %d keys", len(current), len(want))
			}
			for i, w := range want {
				if current[i].Version != w.Version || !absent(w) && !equal(current[i], w) {
					s.fail("record %d is %s, want %s", i, show(current[i]), show(w))
				}
			}
			if current, _ := s.try(writing(key("good"), good, "x", 0), writing(key("b"), 0, "x", 0)); current != nil {
				s.fail("a swap that applied returned %d records", len(current))
			}
		},
	},
	{
		Name:     "the zero record deletes",
		Sentence: "A swap to the zero Record deletes at once. From Old 0 to the zero Record it requires that the key is absent.",
		check: func(s *subject) {
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
		},
	},
	{
		Name:     "a call may have many keys",
		Sentence: "A Load and a CompareAndSwap may have more than a thousand keys.",
		check: func(s *subject) {
			const n = 1100 // the limiter writes up to 1024 decisions together
			keys, creates, replaces := make([]string, n), make([]storage.Swap, n), make([]storage.Swap, n)
			for i := range keys {
				keys[i] = key(fmt.Sprint("many ", i))
				creates[i] = writing(keys[i], 0, fmt.Sprint("state ", i), time.Hour)
				replaces[i] = writing(keys[i], creates[i].New.Version, "x", time.Hour)
			}
			s.swap(creates...)
			for i, r := range s.load(s.Store, keys...) {
				if !equal(r, creates[i].New) {
					s.fail("record %d of %d is %s, want %s", i, n, show(r), show(creates[i].New))
				}
			}
			replaces[n-1].Old = storage.NewVersion()
			if current, swapped := s.try(replaces...); swapped || len(current) != n {
				s.fail("a swap of %d keys with a conflict of the last key returned swapped %v and %d records", n, swapped, len(current))
			}
		},
	},
}

// eachConflict calls try with swaps of two to four keys. The Old of one key is not stored: of each key in
// turn, with keys in rising and in falling order, for records to replace and to create. versions are the
// stored versions.
func (s *subject) eachConflict(try func(swaps []storage.Swap, versions []storage.Version, stale int)) {
	for n := 2; n <= 4; n++ {
		for stale := range n {
			for _, names := range []string{"abcd", "dcba"} {
				for _, create := range []bool{false, true} {
					swaps, versions := s.conflict(names[:n], stale, create)
					try(swaps, versions, stale)
				}
			}
		}
	}
}

func (s *subject) conflict(names string, stale int, create bool) ([]storage.Swap, []storage.Version) {
	swaps, versions := make([]storage.Swap, len(names)), make([]storage.Version, len(names))
	for i := range names {
		k := driver.Key("law", names, fmt.Sprint(stale, create), names[i:i+1])
		if !create || i == stale {
			versions[i] = s.put(k, "before", 0)
		}
		swaps[i] = writing(k, versions[i], "after", 0)
	}
	swaps[stale].Old = storage.NewVersion()
	if create {
		swaps[stale].Old = 0
	}
	return swaps, versions
}
