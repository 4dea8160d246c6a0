package observe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// streams are items drawn in different ways, and in the order that is the hardest
// for a summary: the frequent ones first, then a flood of others.
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

func TestSummariesAgainstExactCounts(t *testing.T) {
	for _, size := range []int{1, 2, 3, 10, 32, 100} {
		for name, stream := range streams(5000) {
			t.Run(fmt.Sprint(name, " ", size), func(t *testing.T) {
				s, exact := newSummary(size), map[uint64]uint64{}
				for i, item := range stream {
					s.add(item)
					exact[item]++
					if i < 500 || i%97 == 0 || i == len(stream)-1 {
						requireTrue(t, s, exact)
					}
				}
			})
		}
	}
}

// requireTrue demands what the paper proves of a summary, and that its counters are
// in order.
func requireTrue(t *testing.T, s *summary, exact map[uint64]uint64) {
	t.Helper()
	var total uint64
	for place, c := range s.counters {
		n := exact[c.item]
		ok := c.n-c.error <= n && n <= c.n && c.error <= s.length/uint64(s.size) &&
			c.place == place && s.index[c.item] == c &&
			(place == 0 || c.n <= s.counters[place-1].n)
		if first := s.counters[c.run.first]; !ok || first.n != c.n || first.run != c.run {
			t.Fatalf("counter %+v at %d of an item that occurred %d times in %d", *c, place, n, s.length)
		}
		total += c.n
	}
	if total != s.length || len(s.index) != len(s.counters) || len(s.counters) > s.size || len(s.spare) > s.size {
		t.Fatalf("%d counters, %d indexed, %d runs to spare add up to %d of %d", len(s.counters), len(s.index), len(s.spare), total, s.length)
	}
	for item, n := range exact {
		if s.index[item] == nil && n > s.missing() {
			t.Fatalf("an item that occurred %d times is not counted, at most %d", n, s.missing())
		}
		if s.index[item] == nil && n > s.length/uint64(s.size) {
			t.Fatalf("an item that occurred %d times in %d is not counted by %d counters", n, s.length, s.size)
		}
	}
}

// Few items take a counter each, and are counted exactly.
func TestSummariesOfFewItemsAreExact(t *testing.T) {
	s := newSummary(33)
	for _, item := range streams(5000)["rotating"] {
		s.add(item)
	}
	for _, c := range s.counters {
		require.Zero(t, c.error)
	}
	require.Zero(t, newSummary(1).missing())
}

// The first example of the paper: X, Y, Y, Z in two counters.
func TestTheExampleOfThePaper(t *testing.T) {
	const x, y, z = 1, 2, 3
	s := newSummary(2)
	for _, item := range []uint64{x, y, y, z} {
		s.add(item)
	}
	got := [][3]uint64{}
	for _, c := range s.counters {
		got = append(got, [3]uint64{c.item, c.n, c.error})
	}
	slices.SortFunc(got, func(a, b [3]uint64) int { return int(a[0]) - int(b[0]) })
	require.Equal(t, [][3]uint64{{y, 2, 0}, {z, 2, 1}}, got)
}

func FuzzSummary(f *testing.F) {
	f.Add(3, []byte("abacabadabacabaeabacabadabacaba"))
	f.Fuzz(func(t *testing.T, size int, stream []byte) {
		s, exact := newSummary(1+(size%16+16)%16), map[uint64]uint64{}
		for _, item := range stream {
			s.add(uint64(item))
			exact[uint64(item)]++
			requireTrue(t, s, exact)
		}
	})
}
