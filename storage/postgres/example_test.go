package postgres_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage/postgres"
)

// connect returns the pool of the application.
func connect(ctx context.Context) *pgxpool.Pool {
	pool, err := pgxpool.New(ctx, shared.Postgres(servers.Example{}).DSN())
	check(err)
	return pool
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// All processes that use the database share the limits.
func Example() {
	ctx := context.Background()
	pool := connect(ctx)
	defer pool.Close()

	store, err := postgres.New(pool, postgres.Options{})
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

// An administrator can create the table with the DDL of Schema. A purge removes expired records.
func ExampleStore_Purge() {
	ctx := context.Background()
	pool := connect(ctx)
	defer pool.Close()

	store, err := postgres.New(pool, postgres.Options{Table: "purged", NoFunctions: true})
	check(err)
	_, err = pool.Exec(ctx, store.Schema())
	check(err)
	removed, err := store.Purge(ctx, 1000)
	fmt.Println(removed, err)
	// Output:
	// 0 <nil>
}

// The order and its quota are in one transaction. An order that fails does not use the quota.
func Example_transaction() {
	ctx := context.Background()
	pool := connect(ctx)
	defer pool.Close()

	_, err := pool.Exec(ctx, "CREATE TABLE orders (customer text, pieces int CHECK (pieces > 0))")
	check(err)
	quota := postgres.Options{Table: "order_quota"}
	store, err := postgres.New(pool, quota)
	check(err)
	check(store.Migrate(ctx))
	rule := sluice.Rule[string]{
		Name: "orders",
		Key:  func(customer string) string { return customer },
		Spec: "fixedwindow 2/24h",
	}

	order := func(customer string, pieces int) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			store, err := postgres.New(tx, quota)
			if err != nil {
				return err
			}
			limiter, err := sluice.For(store, rule)
			if err != nil {
				return err
			}
			d, err := limiter.Allow(ctx, customer)
			if err != nil {
				return err
			}
			if !d.Allowed {
				return errors.New("no more orders today")
			}
			_, err = tx.Exec(ctx, "INSERT INTO orders VALUES ($1, $2)", customer, pieces)
			return err
		})
	}
	for _, pieces := range []int{5, -1, 3, 1} {
		fmt.Println(pieces, order("alice", pieces) == nil)
	}
	var placed int
	check(pool.QueryRow(ctx, "SELECT count(*) FROM orders").Scan(&placed))
	fmt.Println(placed, "orders")
	// Output:
	// 5 true
	// -1 false
	// 3 true
	// 1 false
	// 2 orders
}
