package memstore_test

import (
	"container/list"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/memstore"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// lru is the plain cache that the store is compared with: the most recently
// written keys.
type lru struct {
	max   int
	order *list.List // of keys, the most recent first
	keys  map[string]*list.Element
}

func (l *lru) put(key string) {
	if e, ok := l.keys[key]; ok {
		l.order.MoveToFront(e)
		return
	}
	if len(l.keys) == l.max {
		delete(l.keys, l.order.Remove(l.order.Back()).(string))
	}
	l.keys[key] = l.order.PushFront(key)
}

func (l *lru) has(key string) bool { return l.keys[key] != nil }

// A key has used up its limit and must wait for a minute. Then a million random keys come,
// each once, 50,000 a second: each has used little of its limit, but its state lapses later.
//
// The store has to hold the throttled key until it lapses. An LRU of the same size gives
// its burst back after two seconds.
func TestAFloodDoesNotFreeAThrottledKey(t *testing.T) {
	const maxKeys, flood, spacing = 100_000 / scale, 1_000_000 / scale, 20 * scale * time.Microsecond
	const throttled, wait, once = "throttled", time.Minute, time.Hour

	store := &memstore.Store{MaxKeys: maxKeys}
	other := &lru{maxKeys, list.New(), map[string]*list.Element{}}
	heap := heapInUse()
	used(t, store, epoch, throttled, wait, storage.UsedUp)
	other.put(throttled)
	keptByStore, keptByLRU := time.Duration(-1), time.Duration(-1)
	for i := range flood {
		passed := time.Duration(i) * spacing
		key := fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15)
		if _, swapped, err := at(store, epoch.Add(passed)).CompareAndSwap(ctx, swapOf(key, 0, key, once)); !swapped || err != nil {
			t.Fatal(swapped, err)
		}
		other.put(key)
		if keptByLRU < 0 && !other.has(throttled) {
			keptByLRU = passed
		}
		if i%1000 == 0 {
			require.LessOrEqual(t, store.Stats().Keys, maxKeys)
			if keptByStore < 0 && len(has(t, store, epoch.Add(passed), throttled)) == 0 {
				keptByStore = passed
			}
		}
	}
	if keptByStore < 0 {
		keptByStore = flood * spacing
	}
	other = nil
	perKey := float64(heapInUse()-heap) / maxKeys
	stats := store.Stats()
	t.Logf("%d keys flood a store of %d in %v: a throttled key is kept for %v, by an LRU for %v; %+v; %.0f bytes a key",
		flood, maxKeys, flood*spacing, keptByStore, keptByLRU, stats, perKey)

	require.Equal(t, maxKeys, stats.Keys)
	require.EqualValues(t, flood+1-maxKeys, stats.Evicted+stats.Lapsed)
	require.Equal(t, maxKeys*spacing, keptByLRU+spacing)
	require.Equal(t, flood*spacing, keptByStore, "the store forgot a throttled key")
	require.Greater(t, keptByStore, 5*keptByLRU)
	require.Less(t, perKey, 100.0)
	runtime.KeepAlive(store)
}

func heapInUse() int {
	runtime.GC()
	runtime.GC() // what the first one only made ready to be freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Keys that were given one hit each are no reason to evict a live one, once
// they have lapsed.
func TestAFloodOfLapsedKeysEvictsNobody(t *testing.T) {
	const maxKeys, lapsing = 1000, 50_000 / scale
	store := &memstore.Store{MaxKeys: maxKeys}
	for i := range 100 {
		put(t, store, epoch, fmt.Sprint("live ", i), time.Hour)
	}
	for i := range lapsing {
		put(t, store, epoch.Add(time.Duration(i)*time.Millisecond), fmt.Sprint("once ", i), 100*time.Millisecond)
	}
	require.Equal(t, memstore.Stats{Keys: maxKeys, Lapsed: 100 + lapsing - maxKeys}, store.Stats())
}

func BenchmarkUpdate(b *testing.B) {
	for _, keys := range []int{1, 1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(keys, " keys"), func(b *testing.B) {
			store, d := &memstore.Store{MaxKeys: 1 << 21}, &putter{[]byte("a state of some 20 b.")}
			names := make([][]string, keys)
			for i := range names {
				names[i] = []string{driver.Key("", "bench", fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15))}
			}
			for i := range names {
				_ = store.Update(ctx, epoch, names[i], d)
			}
			b.ReportAllocs()
			at := epoch
			i := uint64(0)
			for b.Loop() {
				i += 0x9e3779b97f4a7c15
				at = at.Add(1000)
				_ = store.Update(ctx, at, names[i%uint64(keys)], d)
			}
		})
	}
}
