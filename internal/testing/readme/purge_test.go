package readme

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// purge removes all expired records, 1000 in a call.
func purge(ctx context.Context, store storage.Purger) error {
	for {
		removed, err := store.Purge(ctx, 1000)
		if err != nil || removed < 1000 {
			return err
		}
	}
}

func Example_purge() {
	dir, err := os.MkdirTemp("", "purge")
	check(err)
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "limits.db")+"?_journal_mode=WAL")
	check(err)
	defer db.Close()
	ctx, now := context.Background(), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store, err := sqlite.New(db, sqlite.Options{Clock: func() time.Time { return now }})
	check(err)
	check(store.Migrate(ctx))
	swaps := make([]storage.Swap, 2500)
	for i := range swaps {
		record := storage.Record{Version: storage.NewVersion()}
		swaps[i] = storage.Swap{Key: fmt.Sprint(i), New: record, TTL: time.Duration(i+1) * time.Minute}
	}
	_, _, err = store.CompareAndSwap(ctx, swaps...)
	check(err)

	now = now.Add(2400 * time.Minute)
	check(purge(ctx, store))
	var left int
	check(db.QueryRow("SELECT count(*) FROM sluice_states").Scan(&left))
	fmt.Println(left, "left of", len(swaps))
	// Output:
	// 100 left of 2500
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
