package storagetest

import "time"

var apartLaws = []Law{
	{
		Name:     "two stores do not meet",
		Sentence: "Stores of different tables or prefixes in one database share no key.",
		check: func(s *subject) {
			k, deleted := key("k"), key("deleted")
			one := s.put(k, "one", time.Hour)
			two := s.putIn(s.Other, k, "two", 0)
			s.putIn(s.Other, deleted, "two", 0)
			if _, swapped := s.tryIn(s.Other, writing(k, one, "x", 0)); swapped {
				s.fail("a version of one store swapped in the other")
			}
			s.swap(deleting(deleted, s.put(deleted, "one", 0)))
			s.holds(k, one, "one")
			s.storeHolds(s.Other, k, two, "two")
			if absent(s.getFrom(s.Other, deleted)) {
				s.fail("a deletion in one store took the other's record")
			}
			s.Advance(time.Hour + s.Slack)
			s.storeHolds(s.Other, k, two, "two")
		},
	},
}
