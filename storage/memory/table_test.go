package memory

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

// sound requires everything that must hold between the parts of a table that should
// hold want: when each lapses, by name.
func (t *table) sound(test *testing.T, want map[name]int64) {
	test.Helper()
	indexed, free, long := 0, 0, 0
	for _, slot := range t.index {
		if slot != 0 {
			indexed++
		}
	}
	for slot := t.free; slot != 0; slot = t.entries[slot-1].place {
		require.Zero(test, t.entries[slot-1].version)
		free++
	}
	require.Len(test, t.order, len(want))
	require.Equal(test, len(want), indexed)
	require.Equal(test, len(t.entries), len(want)+free)
	require.LessOrEqual(test, 4*indexed, 3*len(t.index))
	for n, lapses := range want {
		home, ok := t.find(n)
		if !ok {
			test.Fatalf("%v is lost", n)
		}
		e := &t.entries[t.index[home]-1]
		switch leaf, parent := t.order[e.place], t.order[(e.place-min(e.place, 1))/2]; {
		case e.lapses != lapses:
			test.Fatalf("lapses at %d, should at %d", e.lapses, lapses)
		case leaf.slot != t.index[home]-1:
			test.Fatalf("%v is not where it says in the order", n)
		case leaf.lapses > lapses || leaf.lapses < parent.lapses:
			test.Fatalf("out of order: %d lapses at %d, its parent at %d", leaf.lapses, lapses, parent.lapses)
		}
		if e.size > inline {
			long++
		}
	}
	require.Len(test, t.long, long)
}

func TestATableStaysSound(t *testing.T) {
	for seed := range uint64(2) {
		random, table, want := rand.New(rand.NewPCG(seed, 1)), new(table), map[name]int64{}
		for step := range 6_000 {
			// Few different low halves, so that names get into each other's way.
			n := name{hi: uint64(random.IntN(400)), lo: uint64(random.IntN(4)) * 7}
			n.lo += n.hi % 100
			switch random.IntN(10) {
			case 0, 1, 2:
				_, held := want[n]
				require.Equal(t, held, table.remove(n))
				delete(want, n)
			case 3:
				if table.settle() {
					soonest := int64(never)
					for _, lapses := range want {
						soonest = min(soonest, lapses)
					}
					require.Equal(t, soonest, table.earliest())
					victim := table.entries[table.order[0].slot].name
					require.Equal(t, want[victim], table.earliest())
					table.drop(0)
					delete(want, victim)
				}
			default:
				lapses := 1 + random.Int64N(1_000_000)
				state := bytes.Repeat([]byte{byte(step)}, random.IntN(2*inline))
				_, held := want[n]
				require.Equal(t, !held, table.put(n, storage.Version(step+1), state, lapses))
				want[n] = lapses
				require.Equal(t, storage.Record{Version: storage.Version(step + 1), State: state}, table.record(n, 0))
			}
			if step%50 == 0 {
				table.sound(t, want)
			}
		}
		for n := range want {
			require.True(t, table.remove(n))
		}
		table.sound(t, nil)
	}
}

func TestKeysSpreadOverShardsAndTheirTables(t *testing.T) {
	shards, homes := map[int]int{}, map[uint64]int{}
	for i := range 64_000 {
		n := nameOf(strconv.Itoa(i))
		shards[n.shard()]++
		homes[n.lo&63]++
	}
	for i := range 64 { // 1000 each, give or take ten standard deviations
		require.InDelta(t, 1000, shards[i], 320)
		require.InDelta(t, 1000, homes[uint64(i)], 320)
	}
}
