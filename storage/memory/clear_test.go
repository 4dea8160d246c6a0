package memory_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

func TestClearedRuleHasRoomForNewKeys(t *testing.T) {
	const keys = 100
	s := &memory.Store{MaxKeys: keys}
	fill := func(rule string) {
		for i := range keys {
			used(t, s, epoch, keyOf(rule, strconv.Itoa(i)).String(), time.Hour, storage.UsedUp)
		}
	}
	fill("a")
	fill("b")
	require.Equal(t, keys, s.Clear(keyOf("a", "").Rule))
	require.Equal(t, memory.Stats{Keys: keys}, s.Stats())
	exhausted := keyOf("a", "exhausted").String()
	used(t, s, epoch, exhausted, time.Hour, storage.UsedUp)
	for i := range keys { // one more than there is room for
		put(t, s, epoch, keyOf("a", strconv.Itoa(i)).String(), time.Hour)
	}
	require.Equal(t, memory.Stats{Keys: 2 * keys, Evicted: 1}, s.Stats())
	require.Len(t, existing(t, s, epoch, exhausted), 1)
	require.Equal(t, 2*keys, s.Clear(""))
	require.Equal(t, memory.Stats{Evicted: 1}, s.Stats())
}
