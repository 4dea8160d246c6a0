package observe

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// These tests promise the bounds that the paper proves for the Space-Saving algorithm.

// streams are items from several distributions. In the hardest order for a summary, the
// frequent items come first, and then a flood of others.
func streams(length int) map[string][]uint64 {
	random := rand.New(rand.NewPCG(1, uint64(length)))
	draw := func(next func(i int) uint64) []uint64 {
		stream := make([]uint64, length)
		for i := range stream {
			stream[i] = next(i)
		}
		return stream
	}
	zipf := rand.NewZipf(random, 1.1, 1, 10_000)
	return map[string][]uint64{
		"one":      draw(func(int) uint64 { return 7 }),
		"uniform":  draw(func(int) uint64 { return random.Uint64N(200) }),
		"skewed":   draw(func(int) uint64 { return zipf.Uint64() }),
		"distinct": draw(func(i int) uint64 { return uint64(i) }),
		"rotating": draw(func(i int) uint64 { return uint64(i % 33) }),
		"flooded": draw(func(i int) uint64 {
			if i < length/4 {
				return uint64(i % 5)
			}
			return uint64(i)
		}),
		"mixed": draw(func(i int) uint64 {
			if i%3 == 0 {
				return uint64(i % 9)
			}
			return 100 + random.Uint64()
		}),
	}
}

func TestSummaryIsWithinItsBounds(t *testing.T) {
	for _, size := range []int{1, 2, 3, 10, 32, 100} {
		for name, stream := range streams(5000) {
			t.Run(fmt.Sprint(name, " ", size), func(t *testing.T) {
				s, exact := newSummary(size), map[uint64]uint64{}
				for i, item := range stream {
					s.add(item)
					exact[item]++
					if i < 500 || i%97 == 0 || i == len(stream)-1 {
						requireBounds(t, s, exact)
					}
				}
			})
		}
	}
}

// requireBounds checks the bounds that the paper proves, and that the counters are in order.
func requireBounds(t *testing.T, s *summary, exact map[uint64]uint64) {
	t.Helper()
	var total uint64
	for place, c := range s.counters {
		n, count := exact[c.item], s.counts[place]
		ok := count-c.errorBound <= n && n <= count && c.errorBound <= s.total/uint64(s.size) &&
			c.place == place && s.index[c.item] == c &&
			(place == 0 || count <= s.counts[place-1])
		if !ok {
			t.Fatalf("counter %+v at %d of an item that occurred %d times in %d", *c, place, n, s.total)
		}
		total += count
	}
	if total != s.total || len(s.index) != len(s.counters) || len(s.counters) != len(s.counts) || len(s.counters) > s.size {
		t.Fatalf("%d counters, %d indexed, add up to %d of %d", len(s.counters), len(s.index), total, s.total)
	}
	for item, n := range exact {
		if s.index[item] == nil && n > s.maxMissing() {
			t.Fatalf("an item that occurred %d times is not counted, at most %d", n, s.maxMissing())
		}
		if s.index[item] == nil && n > s.total/uint64(s.size) {
			t.Fatalf("an item that occurred %d times in %d is not counted by %d counters", n, s.total, s.size)
		}
	}
}

func TestSummaryOfFewItemsIsExact(t *testing.T) {
	s := newSummary(33)
	for _, item := range streams(5000)["rotating"] {
		s.add(item)
	}
	for _, c := range s.counters {
		require.Zero(t, c.errorBound)
	}
	require.Zero(t, newSummary(1).maxMissing())
}

func FuzzSummary(f *testing.F) {
	f.Add(3, []byte("abacabadabacabaeabacabadabacaba"))
	f.Fuzz(func(t *testing.T, size int, stream []byte) {
		s, exact := newSummary(1+(size%16+16)%16), map[uint64]uint64{}
		for _, item := range stream {
			s.add(uint64(item))
			exact[uint64(item)]++
			requireBounds(t, s, exact)
		}
	})
}
