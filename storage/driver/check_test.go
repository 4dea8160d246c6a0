package driver_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

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
func ExampleCheckLoad() {
	long := strings.Repeat("x", storage.MaxKey+1)
	err := driver.CheckLoad([]string{long})
	fmt.Println("Load:", errors.Is(err, storage.ErrKey))
	err = driver.BeginBatch(context.Background(), &driver.Batch{Keys: []string{"alice", "alice"}})
	fmt.Println("Run:", errors.Is(err, storage.ErrDuplicateKey))
	// Output:
	// Load: true
	// Run: true
}

func TestKeepForAddsHowFarTheClockIsAhead(t *testing.T) {
	stored := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct{ ttl, ahead, want time.Duration }{
		{time.Hour, 0, time.Hour},
		{time.Hour, time.Minute, time.Hour + time.Minute},
		{time.Hour, -time.Minute, time.Hour},
		{0, time.Minute, 0},
		{math.MaxInt64 - 1, 1, math.MaxInt64},
		{math.MaxInt64, 1, 0},
	} {
		require.Equal(t, c.want, driver.KeepFor(c.ttl, stored.Add(c.ahead), stored), "%v", c)
	}
	require.Equal(t, time.Duration(0), driver.KeepFor(time.Hour, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), stored))
	require.Equal(t, time.Hour, driver.KeepFor(time.Hour, time.Time{}, stored))
}
