package memory_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

// A key uses up its limit and must wait for a minute. Then a flood of new keys arrives, 50,000 a
// second. Each of them uses little of its limit, but its state expires later.
func TestFloodDoesNotEvictAnExhaustedKey(t *testing.T) {
	const maxKeys, flood, spacing, wait = 30_000, 90_000, 20 * time.Microsecond, time.Minute
	store, heap := &memory.Store{MaxKeys: maxKeys}, heapInUse()
	used(t, store, epoch, "exhausted", wait, storage.UsedUp)
	for i := range flood {
		put(t, store, epoch.Add(time.Duration(i)*spacing), fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15), time.Hour)
	}
	perKey := float64(heapInUse()-heap) / maxKeys
	require.Equal(t, memory.Stats{Keys: maxKeys, Evicted: flood + 1 - maxKeys}, store.Stats())
	require.NotEmpty(t, existing(t, store, epoch.Add(flood*spacing), "exhausted"))
	require.Less(t, perKey, 100.0)
	runtime.KeepAlive(store)
}

func heapInUse() int {
	runtime.GC()
	runtime.GC() // frees what the first one left to finalizers and pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestExpiredKeysAreEvictedFirst(t *testing.T) {
	const maxKeys, expiring = 1000, 10_000
	store := &memory.Store{MaxKeys: maxKeys}
	for i := range 100 {
		put(t, store, epoch, fmt.Sprint("live ", i), time.Hour)
	}
	for i := range expiring {
		put(t, store, epoch.Add(time.Duration(i)*time.Millisecond), fmt.Sprint("once ", i), 100*time.Millisecond)
	}
	require.Equal(t, memory.Stats{Keys: maxKeys, Expired: 100 + expiring - maxKeys}, store.Stats())
}

func BenchmarkTransact(b *testing.B) {
	for _, keys := range []int{1, 1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(keys, " keys"), func(b *testing.B) {
			store, updates := &memory.Store{MaxKeys: 1 << 21}, make([]*driver.Update, keys)
			for i := range updates {
				updates[i] = putting("a state of some 20 b.", fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15))
				_ = store.Transact(ctx, nil, updates[i])
			}
			b.ReportAllocs()
			i := uint64(0)
			for b.Loop() {
				i += 0x9e3779b97f4a7c15
				_ = store.Transact(ctx, nil, updates[i%uint64(keys)])
			}
		})
	}
}
