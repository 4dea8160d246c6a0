package memstore

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

func TestAnEntryTakes56Bytes(t *testing.T) {
	require.EqualValues(t, 56, unsafe.Sizeof(entry{}))
}

// wanted is what a table should say of one entry.
type wanted struct{ lapses, worth int64 }

// sound requires everything that must hold between the parts of a table that should
// hold want.
func (t *table) sound(test *testing.T, want map[hash]wanted) {
	test.Helper()
	free, protected, soonest, least := 0, 0, int64(none), int64(none)
	for number := t.entries.free; number != 0; number = t.entries.at(number).lo {
		require.Zero(test, t.entries.at(number).version)
		free++
	}
	require.Equal(test, len(want), t.entries.held)
	require.Equal(test, int(t.entries.used), len(want)+free)
	require.False(test, t.index.isFull(len(want)))
	indexed := 0
	for _, slot := range t.index.slots {
		if slot != 0 {
			indexed++
		}
	}
	if !t.growth.underWay() {
		require.Equal(test, len(want), indexed)
	}
	for h, w := range want {
		number := t.find(h)
		if number == 0 {
			test.Fatalf("%v is lost", h)
		}
		e := t.entries.at(number)
		require.Equal(test, w, wanted{e.lapses, e.worth()})
		t.lapses.boundOf(test, number, w.lapses)
		t.worths.boundOf(test, number, w.worth)
		soonest, least = min(soonest, w.lapses), min(least, w.worth)
		protected += protects(e.mark)
	}
	require.Equal(test, protected, t.protected)
	t.lapses.sound(test, soonest)
	t.worths.sound(test, least)
	t.longSound(test)
}

// boundOf requires that the bound of the entry's block is not above its measure.
func (o *order) boundOf(test *testing.T, number uint32, measure int64) {
	test.Helper()
	if block := int(number-1) >> blockBits; block < o.blocks() {
		require.LessOrEqual(test, o.bounds[o.blocks()+block], measure)
	} else {
		require.EqualValues(test, none, measure)
	}
}

func (o *order) sound(test *testing.T, least int64) {
	test.Helper()
	for i := 1; i < o.blocks(); i++ {
		require.Equal(test, o.bounds[i], min(o.bounds[2*i], o.bounds[2*i+1]))
	}
	require.LessOrEqual(test, o.top, least)
	if o.blocks() > 0 {
		require.Equal(test, o.bounds[1], o.top)
	}
}

// longSound requires that every piece is either free or some entry's.
func (t *table) longSound(test *testing.T) {
	test.Helper()
	taken := make([]int, len(t.long.sizes))
	for number := range t.entries.used {
		if e := t.entries.at(number + 1); e.version != 0 && e.size == spilled {
			_, length := pieceOf(e)
			require.Greater(test, length, inline)
			taken[class(length)]++
		}
	}
	for i := range t.long.sizes {
		c, free := &t.long.sizes[i], 0
		for number := c.free; number != 0; number = uint32(c.at(number)[0]) | uint32(c.at(number)[1])<<8 {
			free++
		}
		require.Equal(test, int(c.used), taken[i]+free)
	}
}

func TestATableStaysSound(t *testing.T) {
	for seed := range uint64(4) {
		random, table, want := rand.New(rand.NewPCG(seed, 1)), new(table), map[hash]wanted{}
		names := 400 << (seed % 2 * 2)
		removals := 3
		for step := range 8_000 {
			if step%2000 == 1000 {
				removals ^= 1 // now more come than go, now not
			}
			// Few different homes and bits in the index, so that names get into each
			// other's way.
			n := hash{hi: uint64(random.IntN(names)) % 100 << 25, lo: uint32(random.IntN(4)) << 30, tail: uint8(random.IntN(names / 100))}
			switch action := random.IntN(10); {
			case action < removals:
				_, held := want[n]
				require.Equal(t, held, table.remove(n))
				delete(want, n)
			case action == 5:
				soonest := int64(none)
				for _, w := range want {
					soonest = min(soonest, w.lapses)
				}
				number, lapses := table.firstToLapse()
				require.Equal(t, soonest, lapses)
				require.Equal(t, len(want) == 0, number == 0)
				table.dropFrom(want, number)
			case action == 6:
				least := int64(none)
				for h, w := range want {
					if h != n {
						least = min(least, w.worth)
					}
				}
				number, worth := table.leastWorth(n)
				require.Equal(t, least, worth)
				require.Equal(t, least == none, number == 0)
				table.dropFrom(want, number)
			case action == 7:
				unprotected := 0
				for h, w := range want {
					if h != n && w.worth == none {
						unprotected++
					}
				}
				number := table.secondChance(n)
				require.Equal(t, unprotected == 0, number == 0)
				if number != 0 {
					require.False(t, table.entries.at(number).mark.isProtected())
					require.False(t, table.entries.at(number).is(n))
				}
				table.dropFrom(want, number)
			default:
				lapses := 1 + random.Int64N(1_000_000)
				state := bytes.Repeat([]byte{byte(step)}, random.IntN(1+random.IntN(8*inline)))
				_, held := want[n]
				c := content{storage.Version(step + 1), lapses, storage.Priority(random.IntN(4))}
				require.Equal(t, !held, table.put(n, table.find(n), state, c))
				want[n] = wanted{lapses, none}
				if c.priority >= storage.UsedHalf {
					want[n] = wanted{lapses, int64(c.priority)<<60 + lapses/8}
				}
				require.Equal(t, storage.Record{Version: storage.Version(step + 1), State: state}, table.record(n, 0))
			}
			if step%200 == 0 {
				table.sound(t, want)
			}
		}
		for n := range want {
			require.True(t, table.remove(n))
			require.Zero(t, table.find(n))
		}
		table.sound(t, map[hash]wanted{})
	}
}

// dropFrom drops an entry, and what is wanted of it.
func (t *table) dropFrom(want map[hash]wanted, number uint32) {
	if number != 0 {
		delete(want, t.entries.at(number).hash())
		t.drop(number, 0)
	}
}

// hashOf is the hash of some key.
func hashOf(i int) hash { return new(Store).Name(strconv.Itoa(i)).hash }

// While an index grows, names are found in the old one or in the new, never in
// both, nor after they were removed.
func TestNamesAreFoundWhileTheIndexGrows(t *testing.T) {
	table, grew, forever := new(table), 0, content{version: 1, lapses: never}
	for i := range 5000 {
		n := hashOf(i)
		table.put(n, 0, nil, forever)
		if table.growth.underWay() {
			grew++
		}
		for _, back := range []int{0, 1, 2, i / 2, i - 3} {
			old := hashOf(min(i, max(0, i-back)))
			number := table.find(old)
			require.NotZero(t, number)
			require.Equal(t, old, table.entries.at(number).hash())
		}
		if gone := hashOf(i / 2); i%7 == 0 {
			require.True(t, table.remove(gone))
			require.Zero(t, table.find(gone))
			table.put(gone, 0, nil, forever)
		}
	}
	require.Greater(t, grew, 500)
	require.Less(t, grew, 3000)
}

func TestTheFirstToLapseIsFoundHoweverOftenRecordsAreGivenTime(t *testing.T) {
	table, random := new(table), rand.New(rand.NewPCG(1, 1))
	names := make([]hash, 1000)
	for i := range names {
		names[i] = hashOf(i)
		table.put(names[i], 0, nil, content{version: 1, lapses: int64(1 + i)})
	}
	for i := range names {
		table.put(names[i], table.find(names[i]), nil, content{version: 1, lapses: int64(10_000 + random.IntN(10_000))})
	}
	for before := int64(10_000); table.entries.held > 0; {
		number, lapses := table.firstToLapse()
		require.GreaterOrEqual(t, lapses, before)
		require.Equal(t, lapses, table.entries.at(number).lapses)
		table.drop(number, 0)
		before = lapses
	}
	require.EqualValues(t, 1000, table.evicted)
}

func TestClassesOfLongStates(t *testing.T) {
	for length := 1; length < 100_000; length += 1 + length/50 {
		size := classSize(class(length))
		require.GreaterOrEqual(t, size, length)
		if length > 32 {
			require.Less(t, classSize(class(length)-1), length, "the next smaller one would do")
			require.LessOrEqual(t, 2*size, 3*length)
		}
	}
}

func TestKeysSpreadOverShardsAndTheirTables(t *testing.T) {
	shards, homes := make([]int, maxShards), make([]int, 64)
	x, store := index{slots: make([]uint32, len(homes))}, new(Store)
	for i := range 64_000 {
		n := store.Name(strconv.Itoa(i))
		shards[n.shard().rank%uint64(len(shards))]++
		homes[x.home(n.hash)]++
	}
	for _, counts := range [][]int{shards, homes} {
		mean := 64_000 / float64(len(counts))
		for _, count := range counts {
			require.InDelta(t, mean, count, 10*math.Sqrt(mean)) // ten standard deviations
		}
	}
}

func TestKeysAreNamedByPrefixAndLastPart(t *testing.T) {
	s := new(Store)
	ann := driver.Key("", "shop", "per user", "ann")
	require.Equal(t, s.Name(ann), s.Prefix(ann).Name("ann"))
	seen := map[Name]string{}
	for _, key := range []string{ann, "", "k", "ann", "annann", driver.Key("ann"), driver.Key("", "ann"), driver.Key("ann", "ann"), driver.Key("", "shop", "per user", "bob")} {
		n := s.Name(key)
		require.Empty(t, seen[n])
		seen[n] = key
	}
}

func TestKeysOfOneRuleShareAPartition(t *testing.T) {
	s, long := new(Store), strings.Repeat("x", storage.MaxKey)
	rule := s.Name(driver.Key("", "shop", "per user", "ann")).partition
	for _, same := range []string{
		driver.Key("", "shop", "per user", ""),
		driver.Key("", "shop", "per user", long),
		driver.Key("a group", "shop", "per user", "ann"),
		driver.Key(long, "shop", "per user", "ann"),
		driver.Key(strings.Repeat("g", 128), "shop", "per user", "ann"),
	} {
		require.Same(t, rule, s.Name(same).partition, "%.40q", same)
	}
	for _, other := range []string{
		"", "ann", driver.Key("", "shop", "per user"), driver.Key("", "shop", "per users", "ann"),
		driver.Key("", "shop2", "per user", "ann"), driver.Key("shop", "per user", "ann"), driver.Key("", "shop", "per user", "ann", ""),
		driver.Key("", "shop", long, "ann"),
	} {
		require.NotSame(t, rule, s.Name(other).partition, "%.40q", other)
	}
	require.NotSame(t, s.Name(driver.Key("", "shop", long, "ann")).partition, s.Name(driver.Key("", "shop2", long, "ann")).partition)
}

func TestShardsShareNoCacheLine(t *testing.T) {
	require.Zero(t, unsafe.Sizeof(shard{})%64)
}
