package driver_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

func swap(key string) storage.Swap {
	return storage.Swap{Key: key, New: storage.Record{Version: 1}}
}

func swaps(n int) []storage.Swap {
	all := make([]storage.Swap, n)
	for i := range all {
		all[i] = swap(strconv.Itoa(i))
	}
	return all
}

func ExampleBeginSwap() {
	alice := storage.Swap{Key: "alice", New: storage.Record{Version: storage.NewVersion()}}
	_, err := driver.BeginSwap(context.Background(), []storage.Swap{alice, alice})
	fmt.Println(err)
	fmt.Println(errors.Is(err, storage.ErrDuplicateKey), errors.Is(err, storage.ErrNotApplied))
	// Output:
	// storage: key occurs twice, at index 1
	// true true
}

// A store checks its arguments first, so that all stores return the same errors.
func ExampleCheckKeys() {
	long := strings.Repeat("x", storage.MaxKey+1)
	err := driver.CheckLoad([]string{long})
	fmt.Println("Load:", errors.Is(err, storage.ErrKey))
	err = driver.CheckKeys([]string{"alice", "alice"})
	fmt.Println("CompareAndSwap:", errors.Is(err, storage.ErrDuplicateKey))
	err = driver.BeginBatch(context.Background(), &driver.Batch{Keys: []string{"alice"}})
	fmt.Println("Run:", err)
	// Output:
	// Load: true
	// CompareAndSwap: true
	// Run: <nil>
}

func TestBeginSwap(t *testing.T) {
	long := strings.Repeat("x", storage.MaxKey+1)
	for _, c := range []struct {
		name  string
		swaps []storage.Swap
		want  error
	}{
		{"none", nil, nil},
		{"create, replace, delete, require absence", []storage.Swap{
			swap("a"),
			{Key: "b", Old: 1, New: storage.Record{Version: 2, State: []byte{1}}, TTL: 1},
			{Key: "c", Old: 1},
			{Key: ""},
			{Key: long[1:]},
		}, nil},
		{"long key", []storage.Swap{swap(long)}, storage.ErrKey},
		{"state without version", []storage.Swap{{Key: "a", Old: 1, New: storage.Record{State: []byte{1}}}}, storage.ErrSwap},
		{"negative TTL", []storage.Swap{{Key: "a", New: storage.Record{Version: 1}, TTL: -1}}, storage.ErrSwap},
		{"same key twice in a row", []storage.Swap{swap("a"), swap("a")}, storage.ErrDuplicateKey},
		{"same key first and last", []storage.Swap{swap("a"), swap("b"), swap("a")}, storage.ErrDuplicateKey},
		{"many", swaps(1000), nil},
		{"many with one duplicate", append(swaps(1000), swap("999")), storage.ErrDuplicateKey},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := driver.BeginSwap(t.Context(), c.swaps)
			require.ErrorIs(t, err, c.want)
			require.Equal(t, c.want != nil, errors.Is(err, storage.ErrNotApplied))
		})
	}
}

func TestCheckKeys(t *testing.T) {
	require.NoError(t, driver.CheckKeys([]string{"a", "b", ""}))
	require.ErrorIs(t, driver.CheckKeys([]string{"a", "b", "a"}), storage.ErrDuplicateKey)
	require.ErrorIs(t, driver.CheckKeys([]string{strings.Repeat("x", 513)}), storage.ErrKey)
	require.NoError(t, driver.CheckLoad([]string{"a", "b", "a"}))
	require.ErrorIs(t, driver.CheckLoad([]string{strings.Repeat("x", 513)}), storage.ErrKey)
}

func TestCheckOfFewKeysDoesNotAllocate(t *testing.T) {
	few, err := driver.BeginSwap(t.Context(), swaps(16))
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = driver.CheckKeys(few) }))
}
