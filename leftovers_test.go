package sluice_test

// These tests promise that a long-running process does not keep the memory that a flood of keys took.

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage/memory"
)

// heapSize returns the memory that is in use.
func heapSize() int64 {
	runtime.GC()
	runtime.GC() // frees what pools kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// When the flood ends, the process has a call left that it bought ahead for each key.
func TestAFloodUnderPrepayLeavesNoPurses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := sluice.Options[call]{Prepay: sluice.Prepay{Calls: 50, For: 50 * time.Second}}
		l := newLimiter(t, o, transactor{new(memory.Store)}, rulesOf("gcra 100000/s")...)
		must(t)(l.Allow(background, ann))
		before := heapSize()
		for i := range 20_000 {
			for range 2 { // the second one buys two calls
				must(t)(l.Allow(background, call{user: fmt.Sprint(i)}))
			}
		}
		time.Sleep(time.Minute)
		must(t)(l.Allow(background, ann))
		require.Less(t, heapSize()-before, int64(3<<20), "the records of the store take less")
		runtime.KeepAlive(l)
	})
}

func TestAnOutageLeavesNoRecordsInTheLocalLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		l := newLimiter(t, sluice.Options[call]{OnFailure: sluice.FailLocal}, store, rulesOf("gcra 10/s")...)
		must(t)(l.Allow(background, ann))
		before := heapSize()
		store.err = errNoTable
		for i := range 50_000 {
			must(t)(l.Allow(background, call{user: fmt.Sprint(i)}))
		}
		require.Greater(t, heapSize()-before, int64(3<<20))
		store.err = nil
		time.Sleep(time.Minute)
		for range 6_000 {
			must(t)(l.Allow(background, ann))
			time.Sleep(time.Second / 10)
		}
		require.Less(t, heapSize()-before, int64(1<<20))
		runtime.KeepAlive(l)
	})
}
