package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// Limits in the database file that the application has already.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "app.db")+"?_journal_mode=WAL&_busy_timeout=5000")
	check(err)
	defer db.Close()

	ctx := context.Background()
	store, err := sqlite.New(db, sqlite.Options{})
	check(err)
	check(store.Migrate(ctx))

	limiter, err := sluice.New(store, "gcra 2/hour")
	check(err)
	for range 3 {
		d, err := limiter.Allow(ctx, "alice")
		fmt.Println(d.Allowed, err)
	}
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}

func ExampleStore_Purge() {
	db, err := sql.Open("sqlite3", "file::memory:")
	check(err)
	defer db.Close()
	db.SetMaxOpenConns(1) // every connection would be a database of its own

	ctx, now := context.Background(), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store, err := sqlite.New(db, sqlite.Options{Clock: func() time.Time { return now }})
	check(err)
	check(store.Migrate(ctx))
	swap := creating("alice")
	swap.TTL = time.Minute
	_, _, err = store.CompareAndSwap(ctx, swap)
	check(err)

	now = now.Add(time.Minute)
	fmt.Println(store.Purge(ctx, 100))
	// Output:
	// 1 <nil>
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
