package storagetest

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/sluice-go/sluice/storage"
)

var togetherLaws = []Law{
	{
		Name:     "one creator wins",
		Sentence: "Of many who create one key at once exactly one wins, and its state is what is stored.",
		check: func(s *subject) {
			const rounds, creators = 10, 8
			for round := range rounds {
				k := key(fmt.Sprint("round ", round))
				var wins, winner atomic.Uint64
				s.together(creators, func(i int) {
					create := writing(k, 0, strconv.Itoa(i), 0)
					if _, swapped := s.try(create); swapped {
						wins.Add(1)
						winner.Store(uint64(create.New.Version))
					}
				})
				if n := wins.Load(); n != 1 {
					s.fail("%d of %d creators won", n, creators)
				}
				if got := s.get(k); got.Version != storage.Version(winner.Load()) {
					s.fail("the winner wrote version %d, stored is %s", winner.Load(), show(got))
				}
			}
		},
	},
	{
		Name:     "no increment is lost",
		Sentence: "When many load, add one and swap until it applies, over two keys at once, the sum is right.",
		check: func(s *subject) {
			const adders, times = 8, 20
			a, b := key("a"), key("b")
			s.put(a, "0", 0)
			s.put(b, "0", 0)
			s.together(adders, func(int) {
				for range times {
					for !s.increment(a, b) {
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
	{
		Name:     "opposite orders never deadlock",
		Sentence: "Swaps that overlap in keys and name them in opposite orders all end, without an error.",
		check: func(s *subject) {
			const swappers, times = 6, 20
			names := []string{"a", "b", "c"}
			for _, name := range names {
				s.put(key(name), "0", 0)
			}
			s.together(swappers, func(i int) {
				a, b := key(names[i%3]), key(names[(i+1+i/3)%3])
				for range times {
					va, vb := s.get(a).Version, s.get(b).Version
					if _, _, err := s.Store.CompareAndSwap(s.ctx, writing(a, va, "x", 0), writing(b, vb, "x", 0)); err != nil {
						s.fail("swapping %q while others swap them in other orders: %v", []string{a, b}, err)
					}
				}
			})
		},
	},
}

// increment tries once to add one to the numbers under both keys.
func (s *subject) increment(a, b string) bool {
	var swaps []storage.Swap
	for _, k := range []string{a, b} {
		r := s.get(k)
		swaps = append(swaps, writing(k, r.Version, s.successor(r), 0))
	}
	_, swapped := s.try(swaps...)
	return swapped
}

func (s *subject) successor(r storage.Record) string {
	n, err := strconv.Atoi(string(r.State))
	if err != nil {
		s.fail("a number was stored, and became %s", show(r))
	}
	return strconv.Itoa(n + 1)
}
