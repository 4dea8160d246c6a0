package memory_test

// These tests promise about transactions:
//   - a key in parts and its text name the same record;
//   - a panic of a clock releases all locks;
//   - any number of keys is stored.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

func load(t *testing.T, s *memory.Store, key string) storage.Record {
	t.Helper()
	records, _, err := s.Load(ctx, key)
	require.NoError(t, err)
	return records[0]
}

// A limiter decides with the parts of keys. Other code uses their text.
func TestKeysAreTheSameInPartsAndAsText(t *testing.T) {
	long, rule := strings.Repeat("k", 600), driver.Rule("shop", "per user", "gcra")
	for _, k := range []driver.RuleKey{
		{Rule: rule, Key: "ann"}, {Rule: rule}, {Rule: rule, Key: long}, {Rule: rule, Key: long[:470]}, {Rule: rule, Key: strings.Repeat("%", 100)}, {Rule: rule, Key: strings.Repeat("%", 200)},
		{Rule: rule, Key: "a:b{c}%\n\xff"}, {Rule: rule, Key: long[:160]}, {Rule: rule, Key: long[:180]},
		{Group: "tenant", Rule: rule, Key: "ann"}, {Group: long, Rule: rule, Key: "ann"}, {Group: "{a:b}", Rule: rule, Key: "ann"}, {Group: long[:90], Rule: rule, Key: "ann"}, {Group: "tenant", Rule: rule, Key: long},
		{Rule: driver.Rule("", long, "gcra"), Key: "ann"}, {Key: "ann"}, {Group: "tenant", Key: "ann"},
	} {
		s := new(memory.Store)
		_, swapped, err := s.CompareAndSwap(ctx, swapOf(k.String(), 0, "by text", 0))
		require.NoError(t, err)
		require.True(t, swapped)
		u := &driver.Update{Items: []driver.Item{{Key: k}}}
		u.Decide = func(time.Time) bool {
			require.Equal(t, "by text", string(u.Items[0].Found.State), "%.80v", k)
			u.Items[0].Next = driver.Change{Verb: driver.Put, State: []byte("by parts")}
			return true
		}
		require.NoError(t, s.Transact(ctx, nil, u))
		require.Equal(t, "by parts", string(load(t, s, k.String()).State))
		require.Equal(t, 1, s.Stats().Keys)
	}
}

func TestPanicOfAClockReleasesTheLocks(t *testing.T) {
	faulty := true
	s := &memory.Store{Clock: func() time.Time {
		if faulty {
			panic("the clock")
		}
		return epoch
	}}
	require.PanicsWithValue(t, "the clock", func() { _ = s.Transact(ctx, nil, putting("x", "a")) })
	faulty = false
	require.Panics(t, func() { _ = s.Transact(ctx, func() time.Time { panic("the clock of the limiter") }, putting("x", "a")) })
	require.NoError(t, s.Transact(ctx, nil, putting("x", "a"))) // would hang
}

func TestTransactionOfManyKeys(t *testing.T) {
	s, keys := new(memory.Store), make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	require.NoError(t, s.Transact(ctx, nil, putting("one", keys...), putting("two", keys[:50]...)))
	for i, key := range keys {
		require.Equal(t, i < 50, string(load(t, s, textOf(key)).State) == "two")
	}
	require.Equal(t, 100, s.Stats().Keys)
}
