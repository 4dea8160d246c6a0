package memory

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

func TestSizesThatPerformanceDependsOn(t *testing.T) {
	require.EqualValues(t, 56, unsafe.Sizeof(entry{}))
	require.Zero(t, unsafe.Sizeof(shard{})%64, "two shards share a cache line")
	require.EqualValues(t, 64, unsafe.Sizeof(lock{}))
	for length := 33; length < 100_000; length += 1 + length/50 {
		size := sizeOfClass(sizeClass(length))
		require.GreaterOrEqual(t, size, length)
		require.LessOrEqual(t, 2*size, 3*length)
	}
}

// wantEntry is what a table must hold under one hash.
type wantEntry struct{ expires, rank int64 }

// check requires that the table holds exactly want and that its parts are consistent.
func (t *table) check(test *testing.T, want map[hash]wantEntry) {
	test.Helper()
	free, protected := 0, 0
	for number := t.entries.firstFree; number != 0; number = t.entries.at(number).lo {
		require.Zero(test, t.entries.at(number).version)
		free++
	}
	require.Equal(test, len(want), t.entries.count)
	require.Equal(test, int(t.entries.highest), len(want)+free)
	require.False(test, t.index.isFull(len(want)))
	indexed := 0
	for _, slot := range t.index.slots {
		if slot != 0 {
			indexed++
		}
	}
	require.Equal(test, len(want), indexed)
	for h, w := range want {
		_, e := t.find(h)
		if e == nil {
			test.Fatalf("%v is lost", h)
		}
		require.Equal(test, w, wantEntry{e.expires, e.rank()})
		if e.mark.isProtected() {
			protected++
		}
	}
	require.Equal(test, protected, t.protected)
	require.EqualValues(test, protected, t.counters.protected.Load())
	require.EqualValues(test, len(want), t.counters.keys.Load())
	t.checkLongStates(test)
}

// checkLongStates requires that every piece is either free or used by one entry.
func (t *table) checkLongStates(test *testing.T) {
	test.Helper()
	pieces := make([]int, len(t.long.classes))
	for number := range t.entries.highest {
		if e := t.entries.at(number + 1); e.version != 0 && e.size == longState {
			_, length := e.piece()
			require.Greater(test, length, maxInline)
			pieces[sizeClass(length)]++
		}
	}
	for i := range t.long.classes {
		p := &t.long.classes[i]
		for number := p.firstFree; number != 0; number = binary.NativeEndian.Uint32(p.at(number)) {
			pieces[i]++
		}
		require.Equal(test, int(p.highest), pieces[i])
	}
}

func TestTableStaysConsistent(t *testing.T) {
	for seed := range uint64(2) {
		random, table, want := rand.New(rand.NewPCG(seed, 1)), &table{counters: new(counters)}, map[hash]wantEntry{}
		hashes := 400 << (seed * 2)
		removals := 3
		for step := range 8_000 {
			if step%2000 == 1000 {
				removals ^= 6 // alternately grow and shrink the table
			}
			// Hashes with few homes and few bits in the index collide.
			h := hash{hi: uint64(random.IntN(hashes)) % 100 << 25, lo: uint32(random.IntN(4)) << 30, tail: uint8(random.IntN(hashes / 100))}
			if random.IntN(6) < removals {
				table.remove(h)
				delete(want, h)
			} else {
				expires := 1 + random.Int64N(1_000_000)
				state := bytes.Repeat([]byte{byte(step)}, random.IntN(1+random.IntN(8*maxInline)))
				p := properties{storage.Version(step + 1), expires, storage.Priority(random.IntN(4))}
				table.put(h, state, p)
				want[h] = wantEntry{expires, none}
				if p.priority >= storage.UsedHalf {
					want[h] = wantEntry{expires, int64(p.priority)<<60 + expires/8}
				}
				require.Equal(t, storage.Record{Version: storage.Version(step + 1), State: state, TTL: time.Duration(expires)}, table.copyOf(h, 0))
			}
			if step%200 == 0 {
				table.check(t, want)
			}
		}
		for h := range want {
			table.remove(h)
			require.Zero(t, table.copyOf(h, 0))
		}
		table.check(t, map[hash]wantEntry{})
	}
}

func TestKeysSpreadOverShardsAndTheirTables(t *testing.T) {
	shards, homes := make([]int, maxShards), make([]int, 64)
	x, store := index{slots: make([]uint32, len(homes))}, new(Store)
	for i := range 64_000 {
		loc := store.locate(strconv.Itoa(i))
		shards[loc.shard.number]++
		homes[x.home(loc.hash)]++
	}
	for _, counts := range [][]int{shards, homes} {
		mean := 64_000 / float64(len(counts))
		for _, count := range counts {
			require.InDelta(t, mean, count, 10*math.Sqrt(mean)) // ten standard deviations
		}
	}
}

// Between the check of the bound and an eviction, a Purge can remove records.
func TestNothingIsEvictedIfThereIsRoomAgain(t *testing.T) {
	s := &Store{MaxKeys: 1}
	loc := s.locate("used up")
	loc.shard.table.put(loc.hash, nil, properties{version: 1, expires: never, priority: storage.UsedUp})
	loc.shard.partition.evictOne(s.locate("new").hash, 1)
	require.Equal(t, Stats{Keys: 1}, s.Stats())
}

// All other records in the shard of the new key are protected, so the other shard evicts.
func TestAnotherShardEvictsAnUnprotectedRecord(t *testing.T) {
	s := &Store{MaxKeys: 128}
	created, protected := s.locate("0"), 0
	for i := 0; s.Stats().Keys <= s.MaxKeys; i++ {
		loc, p := s.locate(strconv.Itoa(i)), storage.UsedLittle
		if i > 0 && loc.shard == created.shard {
			if protected == s.MaxKeys/2 {
				continue
			}
			protected++
			p = storage.UsedUp
		}
		loc.shard.table.put(loc.hash, nil, properties{version: 1, expires: never, priority: p})
	}
	created.shard.partition.evictOne(created.hash, 1)
	require.Equal(t, Stats{Keys: 128, Evicted: 1}, s.Stats())
	require.Equal(t, protected+1, created.shard.table.entries.count)
}

func TestPiecesShareChunksAndAreUsedAgain(t *testing.T) {
	var l longStates
	var a, b entry
	for range 100 {
		l.put(&a, make([]byte, 100))
		l.put(&b, make([]byte, 100))
		l.free(&a)
		a = entry{}
	}
	p := &l.classes[sizeClass(100)]
	require.EqualValues(t, 2, p.highest)
	require.Len(t, p.chunks, 1)
}

func TestFreeEntriesAreNotEvicted(t *testing.T) {
	table := &table{counters: new(counters)}
	for i := range uint64(2) {
		table.put(hash{hi: i}, nil, properties{version: 1})
	}
	table.remove(hash{hi: 0})
	require.EqualValues(t, 2, table.secondChance(hash{hi: 2}))
}
