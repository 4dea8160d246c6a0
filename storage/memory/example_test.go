package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

func Example() {
	ctx, store := context.Background(), new(memory.Store)
	create := storage.Swap{Key: "alice", New: storage.Record{Version: 7, State: []byte("3 left")}}

	_, swapped, err := store.CompareAndSwap(ctx, create)
	fmt.Println("created:", swapped, err)

	current, swapped, err := store.CompareAndSwap(ctx, create) // again: she is there already
	fmt.Printf("created: %v %v, there is version %d, %q\n", swapped, err, current[0].Version, current[0].State)
	// Output:
	// created: true <nil>
	// created: false <nil>, there is version 7, "3 left"
}

func ExampleStore_Load() {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store := &memory.Store{Clock: func() time.Time { return noon }}
	records, now, err := store.Load(context.Background(), "bob", "carol")
	fmt.Println(records, now.UTC().Format(time.TimeOnly), err)
	// Output:
	// [{0 [] 0s} {0 [] 0s}] 12:00:00 <nil>
}

func ExampleStore_Transact() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ctx, store := context.Background(), &memory.Store{Clock: func() time.Time { return now }}
	key := driver.RuleKey{Rule: driver.Rule("", "visits", "counter"), Key: "alice"}

	count := &driver.Update{Items: []driver.Item{{Key: key}}} // counts in one byte
	count.Decide = func(time.Time) bool {
		alice, n := &count.Items[0], byte(0)
		if alice.Found.Version != 0 {
			n = alice.Found.State[0]
		}
		alice.Next = driver.Change{Verb: driver.Put, State: []byte{n + 1}, TTL: time.Minute}
		return true
	}
	for range 3 {
		_ = store.Transact(ctx, nil, count)
	}
	records, _, _ := store.Load(ctx, key.String())
	fmt.Println(records[0].State)

	now = now.Add(time.Minute)
	_ = store.Transact(ctx, nil, count)
	records, _, _ = store.Load(ctx, key.String())
	fmt.Println(records[0].State)
	// Output:
	// [3]
	// [1]
}

func ExampleStore_Stats() {
	ctx, store := context.Background(), &memory.Store{MaxKeys: 2}
	for _, swap := range []storage.Swap{
		{Key: "exhausted", New: storage.Record{Version: 1}, TTL: time.Minute, Priority: storage.UsedUp},
		{Key: "first visit", New: storage.Record{Version: 1}, TTL: time.Hour},
		{Key: "new", New: storage.Record{Version: 1}, TTL: time.Hour},
	} {
		_, _, _ = store.CompareAndSwap(ctx, swap)
	}
	records, _, _ := store.Load(ctx, "exhausted", "first visit", "new")
	fmt.Println(records[0].Version, records[1].Version, records[2].Version)
	fmt.Printf("%+v\n", store.Stats())
	// Output:
	// 1 0 1
	// {Keys:2 Evicted:1 Expired:0}
}

func ExampleStore_Purge() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ctx, store := context.Background(), &memory.Store{Clock: func() time.Time { return now }}
	_, _, _ = store.CompareAndSwap(ctx, storage.Swap{Key: "alice", New: storage.Record{Version: 7}, TTL: time.Minute})

	now = now.Add(time.Minute)
	fmt.Println(store.Purge(ctx, 100))
	// Output:
	// 1 <nil>
}

func ExampleStore_Now() {
	store := new(memory.Store)
	before := store.Now()
	fmt.Println(store.Now().Before(before), time.Since(before).Abs() < time.Hour)
	// Output:
	// false true
}
