package storagetest

import (
	"time"

	"github.com/sluice-go/sluice/storage"
)

var loadLaws = []Law{
	{
		Name:     "an absent key loads as the zero record",
		Sentence: "Load returns the zero Record for an absent key, without an error.",
		check: func(s *subject) {
			if r := s.get(key("k")); r.Version != 0 || r.State != nil {
				s.fail("Load returned version %d and %d bytes of state (nil: %v)", r.Version, len(r.State), r.State == nil)
			}
		},
	},
	{
		Name:     "Load keeps the order of keys",
		Sentence: "Load returns records in the order of its keys, which may repeat and may be absent.",
		check: func(s *subject) {
			names := []string{"c", "absent", "a", "c", "b", "absent"}
			versions := map[string]storage.Version{}
			var keys []string
			for _, name := range []string{"b", "a", "c"} {
				versions[name] = s.put(key(name), name, 0)
			}
			for _, name := range names {
				keys = append(keys, key(name))
			}
			for i, r := range s.load(s.Store, keys...) {
				if name := names[i]; r.Version != versions[name] || !absent(r) && string(r.State) != name {
					s.fail("record %d of %q is %s", i, names, show(r))
				}
			}
		},
	},
	{
		Name:     "empty calls succeed",
		Sentence: "A Load of no keys and a CompareAndSwap without swaps succeed.",
		check: func(s *subject) {
			s.load(s.Store)
			if current, swapped := s.try(); !swapped || len(current) != 0 {
				s.fail("CompareAndSwap() returned %d records and swapped %v", len(current), swapped)
			}
		},
	},
	{
		Name:     "two stores share no key",
		Sentence: "Stores with different tables or prefixes in one database share no key.",
		check: func(s *subject) {
			k, deleted := key("k"), key("deleted")
			one := s.put(k, "one", time.Hour)
			two := s.putIn(s.Other, k, "two", 0)
			s.putIn(s.Other, deleted, "two", 0)
			if _, swapped := s.tryIn(s.Other, writing(k, one, "x", 0)); swapped {
				s.fail("a swap in one store applied to the version of the other store")
			}
			s.swap(deleting(deleted, s.put(deleted, "one", 0)))
			s.holds(k, one, "one")
			s.storeHolds(s.Other, k, two, "two")
			if absent(s.getFrom(s.Other, deleted)) {
				s.fail("a deletion in one store deleted the record of the other store")
			}
			s.Advance(time.Hour + s.Slack)
			s.storeHolds(s.Other, k, two, "two")
		},
	},
}
