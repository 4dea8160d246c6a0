package memory

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

func TestAnEntryTakes56Bytes(t *testing.T) {
	require.EqualValues(t, 56, unsafe.Sizeof(entry{}))
}

// sound requires everything that must hold between the parts of a table that should
// hold want: when each lapses, by name.
func (t *table) sound(test *testing.T, want map[Name]int64) {
	test.Helper()
	free, soonest := 0, int64(none)
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
	for n, lapses := range want {
		number := t.find(n)
		if number == 0 {
			test.Fatalf("%v is lost", n)
		}
		require.Equal(test, lapses, t.entries.at(number).lapses)
		block := int(number-1) >> blockBits
		require.LessOrEqual(test, t.calendar.bounds[t.calendar.blocks()+block], lapses)
		soonest = min(soonest, lapses)
	}
	for i := 1; i < t.calendar.blocks(); i++ {
		require.Equal(test, t.calendar.bounds[i], min(t.calendar.bounds[2*i], t.calendar.bounds[2*i+1]))
	}
	require.LessOrEqual(test, t.calendar.top, soonest)
	if len(want) > 0 {
		require.Equal(test, t.calendar.bounds[1], t.calendar.top)
	}
	t.longSound(test)
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
		random, table, want := rand.New(rand.NewPCG(seed, 1)), new(table), map[Name]int64{}
		names := 400 << (seed % 2 * 2)
		removals := 3
		for step := range 8_000 {
			if step%2000 == 1000 {
				removals ^= 1 // now more come than go, now not
			}
			// Few different homes and bits in the index, so that names get into each
			// other's way.
			n := Name{hi: uint64(random.IntN(names)) % 100 << 25, lo: uint32(random.IntN(4)) << 30, tail: uint16(random.IntN(names / 100))}
			switch action := random.IntN(10); {
			case action < removals:
				_, held := want[n]
				require.Equal(t, held, table.remove(n))
				delete(want, n)
			case action == 5:
				soonest := int64(none)
				for _, lapses := range want {
					soonest = min(soonest, lapses)
				}
				number, lapses := table.first()
				require.Equal(t, soonest, lapses)
				require.Equal(t, len(want) == 0, number == 0)
				if number != 0 {
					victim := table.entries.at(number).name()
					require.Equal(t, want[victim], soonest)
					table.drop(number, 0)
					delete(want, victim)
				}
			default:
				lapses := 1 + random.Int64N(1_000_000)
				state := bytes.Repeat([]byte{byte(step)}, random.IntN(1+random.IntN(8*inline)))
				_, held := want[n]
				require.Equal(t, !held, table.put(n, table.find(n), storage.Version(step+1), state, lapses))
				want[n] = lapses
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
		table.sound(t, map[Name]int64{})
	}
}

// While an index grows, names are found in the old one or in the new, never in
// both, nor after they were removed.
func TestNamesAreFoundWhileTheIndexGrows(t *testing.T) {
	table, grew := new(table), 0
	for i := range 5000 {
		n := NameOf(strconv.Itoa(i))
		table.put(n, 0, 1, nil, never)
		if table.growth.underWay() {
			grew++
		}
		for _, back := range []int{0, 1, 2, i / 2, i - 3} {
			old := NameOf(strconv.Itoa(min(i, max(0, i-back))))
			number := table.find(old)
			require.NotZero(t, number)
			require.Equal(t, old, table.entries.at(number).name())
		}
		if gone := NameOf(strconv.Itoa(i / 2)); i%7 == 0 {
			require.True(t, table.remove(gone))
			require.Zero(t, table.find(gone))
			table.put(gone, 0, 1, nil, never)
		}
	}
	require.Greater(t, grew, 500)
	require.Less(t, grew, 3000)
}

func TestTheFirstToLapseIsFoundHoweverOftenRecordsAreGivenTime(t *testing.T) {
	table, random := new(table), rand.New(rand.NewPCG(1, 1))
	names := make([]Name, 1000)
	for i := range names {
		names[i] = NameOf(strconv.Itoa(i))
		table.put(names[i], 0, 1, nil, int64(1+i))
	}
	for i := range names {
		table.put(names[i], table.find(names[i]), 1, nil, int64(10_000+random.IntN(10_000)))
	}
	for before := int64(10_000); table.entries.held > 0; {
		number, lapses := table.first()
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
	shards, homes := make([]int, 1<<shardBits), make([]int, 64)
	x := index{slots: make([]uint32, len(homes))}
	for i := range 64_000 {
		n := NameOf(strconv.Itoa(i))
		shards[n.shard()]++
		homes[x.home(n)]++
	}
	for _, counts := range [][]int{shards, homes} {
		mean := 64_000 / float64(len(counts))
		for _, count := range counts {
			require.InDelta(t, mean, count, 10*math.Sqrt(mean)) // ten standard deviations
		}
	}
}

func TestKeysAreNamedByPrefixAndLastPart(t *testing.T) {
	ann := storage.Key("", "shop", "per user", "ann")
	require.Equal(t, NameOf(ann), PrefixOf(storage.Key("", "shop", "per user")).Name("ann"))
	seen := map[Name]string{}
	for _, key := range []string{ann, "", "k", "ann", "annann", storage.Key("ann"), storage.Key("", "ann"), storage.Key("ann", "ann"), storage.Key("", "shop", "per user", "bob")} {
		n := NameOf(key)
		require.Empty(t, seen[n])
		seen[n] = key
	}
}
