package memory_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
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
