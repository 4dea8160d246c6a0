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
	fill("a")
	require.Equal(t, memory.Stats{Keys: 2 * keys}, s.Stats())
	require.Equal(t, 2*keys, s.Clear(""))
	require.Equal(t, memory.Stats{}, s.Stats())
}
