package storagetest

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/sluice-go/sluice/storage"
)

var concurrencyLaws = []Law{
	law("only one creation succeeds",
		"If many goroutines create a key concurrently, exactly one succeeds, and its record is stored.", func(s *subject) {
			const rounds, creators = 10, 8
			for round := range rounds {
				k := key(fmt.Sprint("round ", round))
				var created, version atomic.Uint64
				s.concurrently(creators, func(i int) {
					create := writing(k, 0, strconv.Itoa(i), 0)
					if _, swapped := s.try(create); swapped {
						created.Add(1)
						version.Store(uint64(create.New.Version))
					}
				})
				if n := created.Load(); n != 1 {
					s.fail("%d of %d creations succeeded", n, creators)
				}
				if got := s.get(k); got.Version != storage.Version(version.Load()) {
					s.fail("the successful creation wrote version %d, but the key has %s", version.Load(), show(got))
				}
			}
		}),
	law("no increment is lost",
		"If many goroutines increment two numbers with Load and CompareAndSwap concurrently, no increment is lost.", func(s *subject) {
			s.incrementsAddUp(func(int) { s.increment(key("a"), key("b")) })
		}),
	law("swaps in opposite orders do not deadlock",
		"Concurrent calls of CompareAndSwap with the same keys in opposite orders all end without an error.", func(s *subject) {
			const swappers, times = 6, 20
			names := []string{"a", "b", "c"}
			for _, name := range names {
				s.put(key(name), "0", 0)
			}
			s.concurrently(swappers, func(i int) {
				a, b := key(names[i%3]), key(names[(i+1+i/3)%3])
				for range times {
					va, vb := s.get(a).Version, s.get(b).Version
					if _, _, err := s.Store.CompareAndSwap(s.ctx, writing(a, va, "x", 0), writing(b, vb, "x", 0)); err != nil {
						s.fail("a swap of %q concurrent with swaps in other orders: %v", []string{a, b}, err)
					}
				}
			})
		}),
}

// incrementsAddUp requires that no increment is lost if several goroutines call increment(i), which adds one to
// the numbers under the keys "a" and "b".
func (s *subject) incrementsAddUp(increment func(i int)) {
	const adders, times = 8, 20
	keys := []string{key("a"), key("b")}
	for _, k := range keys {
		s.put(k, "0", 0)
	}
	s.concurrently(adders, func(i int) {
		for range times {
			increment(i)
		}
	})
	for _, k := range keys {
		if got := s.get(k); string(got.State) != strconv.Itoa(adders*times) {
			s.fail("after %d increments the key has %s", adders*times, show(got))
		}
	}
}

// increment adds one to both numbers with a swap. It retries after conflicts.
func (s *subject) increment(a, b string) {
	for swapped := false; !swapped; {
		var swaps []storage.Swap
		for _, k := range []string{a, b} {
			r := s.get(k)
			swaps = append(swaps, writing(k, r.Version, s.successor(r.State), 0))
		}
		_, swapped = s.try(swaps...)
	}
}

// successor returns the next number after the one in state.
func (s *subject) successor(state []byte) string {
	n, err := strconv.Atoi(string(state))
	if err != nil {
		s.fail("the state of the key should be a number, but is %.40q", state)
	}
	return strconv.Itoa(n + 1)
}
