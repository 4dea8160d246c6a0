// Quota asks for calls under a limit of 5 an hour, and prints the answers. Run
// it in two terminals at once to see two processes share the limit:
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
	address := flag.String("store", "", "memory:, sqlite:FILE, postgres://... or redis://...; without it, the address in SLUICE_STORE, or memory:")
	key := flag.String("key", "ann", "the customer who calls")
	calls := flag.Int("calls", 3, "how many calls to ask for")
	flag.Parse()
	if *calls < 1 {
		fmt.Fprintf(os.Stderr, "quota: -calls must be at least 1, got %d\n", *calls)
		os.Exit(2)
	}
	if err := ask(context.Background(), cmp.Or(*address, os.Getenv("SLUICE_STORE"), "memory:"), *key, *calls); err != nil {
		fmt.Fprintln(os.Stderr, "quota:", err)
		os.Exit(1)
	}
}

func ask(ctx context.Context, address, key string, calls int) error {
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
		fmt.Println(words(decision))
	}
	return nil
}

func words(d compose.Decision) string {
	if d.Allowed {
		return fmt.Sprintf("allowed, %d left", d.Remaining)
	}
	return fmt.Sprintf("denied by %s, again in %v", d.Rule, d.RetryAfter.Round(time.Second))
}
