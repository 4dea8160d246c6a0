// Quota makes calls under a limit of 5 an hour for each customer, and prints the decisions.
// Run it in two terminals to see two processes share the limit:
//
//	go run ./examples/quota -store sqlite:quota.db -key ann -calls 3
//	go run ./examples/quota -store redis://localhost:6379 -key ann -calls 3
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/sluice-go/sluice/compose"
)

func main() {
	address := flag.String("store", "", "memory:, sqlite:FILE, postgres://... or redis://...; the default is SLUICE_STORE, or else memory:")
	key := flag.String("key", "ann", "the name of the customer")
	calls := flag.Int("calls", 3, "how many calls to make")
	flag.Parse()
	if *calls < 1 {
		fmt.Fprintf(os.Stderr, "quota: -calls must be at least 1, got %d\n", *calls)
		os.Exit(2)
	}
	if err := run(context.Background(), cmp.Or(*address, os.Getenv("SLUICE_STORE"), "memory:"), *key, *calls); err != nil {
		fmt.Fprintln(os.Stderr, "quota:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, key string, calls int) error {
	store, err := open(ctx, address)
	if err != nil {
		return err
	}
	limiter, err := newLimiter(store)
	if err != nil {
		return err
	}
	for range calls {
		decision, err := limiter.Allow(ctx, key)
		if err != nil {
			return err
		}
		fmt.Println(describe(decision))
	}
	return nil
}

func describe(d compose.Decision) string {
	if d.Allowed {
		return fmt.Sprintf("allowed, %d left", d.Remaining)
	}
	return fmt.Sprintf("denied by %s, again in %v", d.Rule, d.RetryAfter.Round(time.Second))
}
