package driver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
