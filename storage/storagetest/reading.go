package storagetest

import "github.com/sluice-go/sluice/storage"

var readingLaws = []Law{
	{
		Name:     "absent is zero",
		Sentence: "A key that is absent loads as the zero Record, without an error.",
		check: func(s *subject) {
			if r := s.get(key("k")); r.Version != 0 || r.State != nil {
				s.fail("it loads with version %d and %d bytes of state (nil: %v)", r.Version, len(r.State), r.State == nil)
			}
		},
	},
	{
		Name:     "loads answer in order",
		Sentence: "Load answers in the order of its keys, which may repeat and may be absent.",
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
			records, err := s.Store.Load(s.ctx, keys...)
			if err != nil || len(records) != len(keys) {
				s.fail("%d records for %d keys, error %v", len(records), len(keys), err)
			}
			for i, name := range names {
				if r := records[i]; r.Version != versions[name] || !absent(r) && string(r.State) != name {
					s.fail("record %d of %q is %s", i, names, show(r))
				}
			}
		},
	},
	{
		Name:     "nothing asked is nothing done",
		Sentence: "A load of no keys and a swap of no keys succeed.",
		check: func(s *subject) {
			if records, err := s.Store.Load(s.ctx); err != nil || len(records) != 0 {
				s.fail("Load() = %d records, %v", len(records), err)
			}
			if current, swapped, err := s.Store.CompareAndSwap(s.ctx); err != nil || !swapped || len(current) != 0 {
				s.fail("CompareAndSwap() = %d records, %v, %v", len(current), swapped, err)
			}
		},
	},
}
