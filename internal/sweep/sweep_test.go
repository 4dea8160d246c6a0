package sweep_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/sweep"
)

const least = 10

var began = time.Unix(1e9, 0)

// fill adds new entries until the map has n.
func fill(all map[string]bool, n int, used bool) {
	for i := 0; len(all) < n; i++ {
		all[fmt.Sprint(time.Now().UnixNano(), i)] = used
	}
}

func isUnused(used bool) bool { return !used }

func TestAMapIsSweptWhenItHasTwiceAsManyEntries(t *testing.T) {
	var s sweep.Schedule
	all := map[string]bool{}
	fill(all, least, true)
	all = sweep.Map(&s, all, least, began, isUnused)
	fill(all, 2*least-1, false)
	all = sweep.Map(&s, all, least, began, isUnused)
	require.Len(t, all, 2*least-1)
	fill(all, 2*least, false)
	all = sweep.Map(&s, all, least, began, isUnused)
	require.Len(t, all, least)
}

// The map was large, and has grown little since.
func TestAMapIsSweptEachMinute(t *testing.T) {
	var s sweep.Schedule
	all := map[string]bool{}
	fill(all, 1000, true)
	all = sweep.Map(&s, all, least, began, isUnused)
	for key := range all {
		all[key] = false
	}
	all = sweep.Map(&s, all, least, began.Add(time.Minute-1), isUnused)
	require.Len(t, all, 1000)
	all = sweep.Map(&s, all, least, began.Add(time.Minute), isUnused)
	require.Empty(t, all)
}

func TestASmallMapIsNotSwept(t *testing.T) {
	var s sweep.Schedule
	all := map[string]bool{}
	for i := range 10 {
		fill(all, least-1, false)
		all = sweep.Map(&s, all, least, began.Add(time.Duration(i)*time.Hour), isUnused)
		require.Len(t, all, least-1)
	}
}

func TestASweepFreesTheMemoryOfTheMap(t *testing.T) {
	var s sweep.Schedule
	all := map[string]bool{}
	before := heap()
	for i := range 100_000 {
		all[fmt.Sprint(i)] = false
	}
	all = sweep.Map(&s, all, least, began, isUnused)
	require.Less(t, heap()-before, int64(1<<20))
	runtime.KeepAlive(all)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
