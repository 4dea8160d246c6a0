package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/storage"
)

var listLaws = []Law{
	law("a listing has all keys with the prefix",
		"The pages of List have each live key that begins with the prefix, unchanged, and no others.", func(s *subject) {
			prefixes := []string{"", "a", "a:", "a*", "a?", `a\`, "a[b]", "A", "a%", "a_", "\xff", "\xff\xff", "a\x00", "ä"}
			var all []string
			for _, prefix := range prefixes {
				for _, rest := range []string{"", "1", "\x00", "\xff", " ", "\n"} {
					if key := prefix + rest; !slices.Contains(all, key) {
						all = append(all, key)
						s.put(key, "x", year)
					}
				}
			}
			longest := strings.Repeat("\xff", storage.MaxKey)
			all = append(all, longest)
			s.put(longest, "x", 0)
			s.on(s.Other).put("a of the other", "x", 0)
			s.swap(deleting("a deleted", s.put("a deleted", "x", 0)))
			s.put("a expired", "x", hour)
			s.Advance(hour + s.Slack)
			for _, prefix := range append(prefixes[1:], longest, "absent") { // the prefix of the other store can begin like that of the store
				var want []string
				for _, key := range all {
					if strings.HasPrefix(key, prefix) {
						want = append(want, key)
					}
				}
				slices.Sort(want)
				sizes := []int{7}
				if prefix == "a" { // not all prefixes: a page of one key can mean a round trip for each key of a server
					sizes = []int{1, 7, 1000}
				}
				for _, max := range sizes {
					listed := s.list(prefix, max, nil)
					slices.Sort(listed)
					if got := slices.Compact(listed); !slices.Equal(got, want) {
						s.fail("pages of %d keys with the prefix %.40q have %.40q, want %.40q", max, prefix, got, want)
					}
				}
			}
		}),
	law("a listing has the keys that stay",
		"A key that has a record from the first page to the last is listed, even if other keys are created and deleted, and its own "+
			"record is replaced, between the pages.", func(s *subject) {
			const count = 300
			name := func(kind string, i int) string { return fmt.Sprintf("%03d %s", i, kind) }
			stays, leaves := map[string]storage.Version{}, map[string]storage.Version{}
			for i := range count {
				stays[name("stays", i)] = s.put(name("stays", i), "x", 0)
				leaves[name("leaves", i)] = s.put(name("leaves", i), "x", 0)
			}
			page := 0
			listed := s.list("", 20, func() {
				for i := page % 10; i < count; i += 10 {
					if page < 10 {
						s.swap(deleting(name("leaves", i), leaves[name("leaves", i)]))
					} else if page < 20 {
						s.put(name("comes", i), "x", 0)
					}
					stays[name("stays", i)] = s.replace(name("stays", i), stays[name("stays", i)], "y")
				}
				page++
			})
			for key := range stays {
				if !slices.Contains(listed, key) {
					s.fail("the key %q had a record all the time, and it is on none of the %d pages", key, page)
				}
			}
		}),
	law("a listing has an end",
		"List returns an error if max is below 1, or if its context has ended. Without keys, the first page is empty and there is no other.", func(s *subject) {
			if listed := s.list("", 10, nil); len(listed) > 0 {
				s.fail("an empty store lists %.40q", listed)
			}
			s.put("k", "x", 0)
			lister := s.Store.(storage.Lister)
			for _, max := range []int{0, -1} {
				if keys, _, err := lister.List(s.ctx, "", "", max); err == nil {
					s.fail("a page of %d keys has %d, and no error", max, len(keys))
				}
			}
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			if keys, _, err := lister.List(ended, "", "", 1); !errors.Is(err, context.Canceled) {
				s.fail("after its context had ended, List returned %d keys and the error %v", len(keys), err)
			}
		}),
}

// list returns the keys of all pages. It calls between, unless that is nil, after each page but the last.
func (s *subject) list(prefix string, max int, between func()) (listed []string) {
	const most = 100_000 // pages
	cursor := ""
	for range most {
		keys, next, err := s.Store.(storage.Lister).List(s.ctx, prefix, cursor, max)
		if err != nil {
			s.fail("List of the prefix %.40q: %v", prefix, err)
		}
		if listed = append(listed, keys...); next == "" {
			return listed
		}
		cursor = next
		if between != nil {
			between()
		}
	}
	s.fail("the listing of the prefix %.40q has not ended after %d pages", prefix, most)
	return nil
}
