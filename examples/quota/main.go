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
	"log"
	"os"
	"time"

	"github.com/sluice-go/sluice"
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
	limiter, err := sluice.For(store,
		sluice.By("customer", func(name string) string { return name }, "fixedwindow 5/h"),
		sluice.Rule[string]{Name: "everyone", Spec: "gcra 1000/s"})
	if err != nil {
		log.Fatal(err)
	}
	for range *calls {
		d, err := limiter.Allow(ctx, *key)
		switch {
		case err != nil:
			log.Fatal(err)
		case d.Allowed:
			fmt.Printf("allowed, %d left\n", d.Remaining)
		default:
			fmt.Printf("denied by %s, again in %v\n", d.Rule, d.RetryAfter.Round(time.Second))
		}
	}
}
