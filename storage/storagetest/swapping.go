package storagetest

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

var swappingLaws = []Law{
	{
		Name:     "swap only what is there",
		Sentence: "A swap applies if, and only if, Old is the version that is stored.",
		check: func(s *subject) {
			k, none := key("k"), key("absent")
			first := s.put(k, "first", 0)
			same := writing(k, first, "first", 0) // a write all the same
			s.swap(same)
			second := writing(k, same.New.Version, "second", 0)
			s.swap(second)
			s.holds(k, second.New.Version, "second")
			for what, stale := range map[string]storage.Swap{
				"creating what is there":            writing(k, 0, "x", 0),
				"a version that was replaced":       writing(k, same.New.Version, "x", 0),
				"a version before that":             writing(k, first, "x", 0),
				"a version that never was":          writing(k, storage.NewVersion(), "x", 0),
				"an absent key, from some version":  writing(none, storage.NewVersion(), "x", 0),
				"deleting, from a replaced version": deleting(k, first),
				"deleting what is absent":           deleting(none, first),
			} {
				if _, swapped := s.try(stale); swapped {
					s.fail("swapped although stale: %s", what)
				}
			}
			s.holds(k, second.New.Version, "second")
		},
	},
	{
		Name:     "a loser changes nothing",
		Sentence: "A swap that is refused leaves version, state and TTL as they were.",
		check: func(s *subject) {
			const ttl, long = time.Hour, 48 * time.Hour
			stale := storage.NewVersion()
			versions := map[string]storage.Version{}
			for name, ttl := range map[string]time.Duration{"longer": ttl, "for ever": ttl, "beside": ttl, "control": ttl, "shorter": long} {
				versions[name] = s.put(key(name), name, ttl)
			}
			for _, loser := range [][]storage.Swap{
				{writing(key("longer"), stale, "loser", long)},
				{writing(key("for ever"), 0, "loser", 0)},
				{writing(key("shorter"), stale, "loser", time.Second)},
				{writing(key("absent"), stale, "loser", 0), writing(key("beside"), versions["beside"], "loser", long)},
			} {
				if _, swapped := s.try(loser...); swapped {
					return // it is no loser; other laws judge that
				}
			}
			for name, version := range versions {
				s.holds(key(name), version, name)
			}
			s.Advance(ttl + s.Slack)
			if !absent(s.get(key("control"))) {
				return // this store expires nothing; another law judges that
			}
			s.holds(key("shorter"), versions["shorter"], "shorter")
			for _, name := range []string{"longer", "for ever", "beside"} {
				if r := s.get(key(name)); !absent(r) {
					s.fail("the TTL of %q was changed by a loser: it outlived its %v", name, ttl)
				}
			}
		},
	},
	{
		Name:     "one stale key refuses all",
		Sentence: "A swap of several keys is refused when any one of them is stale, whichever it is.",
		check: func(s *subject) {
			s.eachStale("refuses", func(swaps []storage.Swap, _ []storage.Version, stale int) {
				if _, swapped := s.try(swaps...); swapped {
					s.fail("swapped although key %d of %d was stale", stale+1, len(swaps))
				}
			})
		},
	},
	{
		Name:     "all or nothing",
		Sentence: "A swap of several keys that is refused changes none of them, in whatever order they come.",
		check: func(s *subject) {
			s.eachStale("tears", func(swaps []storage.Swap, versions []storage.Version, stale int) {
				if _, swapped := s.try(swaps...); swapped {
					return // refusing it is another law
				}
				for i, version := range versions {
					if got := s.get(swaps[i].Key); got.Version != version {
						s.fail("key %d of %d was changed, though key %d was stale", i+1, len(swaps), stale+1)
					}
				}
			})
		},
	},
	{
		Name:     "conflict returns what is stored",
		Sentence: "A refused swap returns what is stored under each of its keys, in their order; one that applies returns nothing.",
		check: func(s *subject) {
			good, stale := s.put(key("good"), "good state", 0), s.put(key("a stale one"), "stale state", 0)
			current, swapped := s.try(
				writing(key("x"), storage.NewVersion(), "x", 0),
				writing(key("good"), good, "x", 0),
				writing(key("a stale one"), storage.NewVersion(), "x", 0),
				writing(key("b"), 0, "x", 0))
			if swapped {
				return // refusing it is another law
			}
			want := []storage.Record{{}, {Version: good, State: []byte("good state")}, {Version: stale, State: []byte("stale state")}, {}}
			if len(current) != len(want) {
				s.fail("%d records for %d keys", len(current), len(want))
			}
			for i, w := range want {
				if current[i].Version != w.Version || !absent(w) && string(current[i].State) != string(w.State) {
					s.fail("record %d should be %s, is %s", i, show(w), show(current[i]))
				}
			}
			if current, _ := s.try(writing(key("good"), good, "x", 0), writing(key("b"), 0, "x", 0)); current != nil {
				s.fail("a swap that applied returned %d records", len(current))
			}
		},
	},
	{
		Name:     "the zero record deletes",
		Sentence: "A swap to the zero Record deletes, at once and for good, and from nothing to nothing requires that there is nothing.",
		check: func(s *subject) {
			k, beside := key("k"), key("beside")
			version := s.put(k, "state", 48*time.Hour)
			deletion := deleting(k, version)
			deletion.TTL = time.Hour // means nothing
			s.swap(deletion, writing(beside, 0, "beside", 0))
			s.lacks(k)
			if absent(s.get(beside)) {
				s.fail("what was created beside a deletion is not there")
			}
			s.swap(deleting(k, 0))
			s.lacks(k)
			s.Advance(time.Hour + s.Slack)
			s.lacks(k)
			again := s.put(k, "again", 0)
			if _, swapped := s.try(deleting(k, 0)); swapped {
				s.fail("a swap from nothing to nothing applied where there is a record")
			}
			s.holds(k, again, "again")
		},
	},
	{
		Name:     "many keys are like one",
		Sentence: "A swap of more than a thousand keys applies or is refused as one of a single key, and so many are loaded at once.",
		check: func(s *subject) {
			const n = 1100 // the engine writes up to 1024 decisions at once
			keys, creates := make([]string, n), make([]storage.Swap, n)
			for i := range keys {
				keys[i] = key(fmt.Sprint("many ", i))
				creates[i] = writing(keys[i], 0, fmt.Sprint("state ", i), time.Hour)
			}
			s.swap(creates...)
			records, err := s.Store.Load(s.ctx, keys...)
			if err != nil || len(records) != n {
				s.fail("%d records for %d keys, error %v", len(records), n, err)
			}
			for i, c := range creates {
				if r := records[i]; r.Version != c.New.Version || string(r.State) != string(c.New.State) {
					s.fail("record %d of %d should be %s, is %s", i, n, show(c.New), show(r))
				}
			}
			replaces := make([]storage.Swap, n)
			for i, c := range creates {
				replaces[i] = writing(keys[i], c.New.Version, "x", time.Hour)
			}
			replaces[n-1].Old = storage.NewVersion()
			if current, swapped := s.try(replaces...); swapped || len(current) != n {
				s.fail("a swap of %d keys, the last of them stale: swapped %v, %d records", n, swapped, len(current))
			}
		},
	},
}

// eachStale offers swaps of two to four keys, of which one is stale: each in turn,
// with names that rise and names that fall, replacing and creating.
func (s *subject) eachStale(law string, offer func(swaps []storage.Swap, versions []storage.Version, stale int)) {
	for n := 2; n <= 4; n++ {
		for stale := range n {
			for _, names := range []string{"abcd", "dcba"} {
				for _, create := range []bool{false, true} {
					swaps, versions := s.group(law, names[:n], stale, create)
					offer(swaps, versions, stale)
				}
			}
		}
	}
}

// group prepares one such swap, and the versions that are stored before it.
func (s *subject) group(law, names string, stale int, create bool) ([]storage.Swap, []storage.Version) {
	swaps, versions := make([]storage.Swap, len(names)), make([]storage.Version, len(names))
	for i := range names {
		k := driver.Key("law", law, names, fmt.Sprint(stale, create), names[i:i+1])
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
