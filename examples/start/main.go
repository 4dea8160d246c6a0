// Start limits signups by address and by mail domain. If its argument is the URL of a PostgreSQL database,
// all processes that use the database share the limits.
//
//	go run ./examples/start
//	go run ./examples/start postgres://postgres@localhost/postgres
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

type signup struct{ address, domain string }

func signupLimiter(store storage.Store) (*sluice.Limiter[signup], error) {
	return sluice.For(store, // nil: in memory
		sluice.By("address", func(s signup) string { return s.address }, "gcra 3/h burst=2"),
		sluice.By("domain", func(s signup) string { return s.domain }, "fixedwindow 100/d"))
}

func open(ctx context.Context, address string) (storage.Store, error) {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return nil, err
	}
	store, err := postgres.New(pool, postgres.Options{})
	if err != nil {
		return nil, err
	}
	return store, store.Migrate(ctx) // safe to call at every startup
}

func run(ctx context.Context, arguments []string) error {
	var store storage.Store
	if len(arguments) > 0 {
		var err error
		if store, err = open(ctx, arguments[0]); err != nil {
			return err
		}
	}
	limiter, err := signupLimiter(store)
	if err != nil {
		return err
	}
	for range 3 {
		decision, err := limiter.Allow(ctx, signup{"192.0.2.1", "example.com"})
		switch {
		case err != nil:
			return err // the limiter could not decide; this is never a denial
		case decision.Allowed:
			fmt.Println("welcome")
		default:
			fmt.Println("denied by rule", decision.Rule)
		}
	}
	return nil
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}
