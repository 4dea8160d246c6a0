// Quota makes calls under a limit of 5 an hour for each customer, and prints the decisions.
// Run it in two terminals to see two processes share the limit:
//
//	go run ./examples/quota -store sqlite:quota.db -key ann -calls 3
//	go run ./examples/quota -store redis://localhost:6379 -key ann -calls 3
package main

import (
	"cmp"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/mattn/go-sqlite3"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/redis"
	"github.com/sluice-go/sluice/storage/sqlite"
)

func main() {
	address := flag.String("store", "", "memory:, sqlite:FILE, postgres://... or redis://...; the default is SLUICE_STORE, or else memory:")
	key := flag.String("key", "ann", "the name of the customer")
	calls := flag.Uint("calls", 3, "how many calls to make")
	flag.Parse()
	log.SetFlags(0)
	log.SetPrefix("quota: ")
	ctx := context.Background()
	store, err := open(ctx, cmp.Or(*address, os.Getenv("SLUICE_STORE"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	limiter := sluice.MustFor(store,
		sluice.By("customer", func(name string) string { return name }, "fixedwindow 5/h"),
		sluice.Rule[string]{Name: "everyone", Spec: "gcra 1000/s"})
	for range *calls {
		d, err := limiter.Allow(ctx, *key)
		switch {
		case err != nil:
			log.Fatal(err)
		case d.Allowed:
			fmt.Printf("allowed, %d left\n", d.Remaining)
		default:
			fmt.Printf("denied by rule %s, try again in %v\n", d.Rule, d.RetryAfter.Round(time.Second))
		}
	}
}

// open opens the store at an address. The store stays open until the process ends.
func open(ctx context.Context, address string) (storage.Store, error) {
	switch scheme, rest, _ := strings.Cut(address, ":"); scheme {
	case "memory":
		return new(memory.Store), nil
	case "sqlite":
		return openSQLite(ctx, rest)
	case "postgres", "postgresql":
		return openPostgres(ctx, address)
	case "redis", "rediss":
		return openRedis(address)
	}
	return nil, fmt.Errorf("-store must be memory:, sqlite:FILE, postgres://... or redis://..., got %q", address)
}

func openSQLite(ctx context.Context, file string) (*sqlite.Store, error) {
	db, err := sql.Open("sqlite3", "file:"+url.PathEscape(file)+"?_journal_mode=WAL&_busy_timeout=5000&_stmt_cache_size=16")
	if err != nil {
		return nil, err
	}
	store, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	return store, store.Migrate(ctx)
}

func openPostgres(ctx context.Context, address string) (*postgres.Store, error) {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return nil, err
	}
	store, err := postgres.New(pool, postgres.Options{})
	if err != nil {
		return nil, err
	}
	return store, store.Migrate(ctx)
}

func openRedis(address string) (storage.Store, error) {
	options, err := goredis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	options.ContextTimeoutEnabled = true
	options.DialerRetries = 1 // the limiter retries
	logging.Disable()         // the limiter returns the errors
	return redis.New(goredis.NewClient(options), redis.Options{})
}
