// Tokens shows a budget of tokens for a language model. A prompt pays an estimate before the
// model answers. The payment is corrected when the number of tokens is known.
//
//	go run ./examples/tokens
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sluice-go/sluice"
)

func main() {
	ctx := context.Background()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	limiter, err := sluice.Options[prompt]{Clock: func() time.Time { return now }}.New(nil, budgetRules()...)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range []struct{ estimate, used int64 }{{4000, 1500}, {4000, 4000}, {6000, 0}, {4000, 4600}, {1000, 500}} {
		err := complete(ctx, limiter, prompt{"acme", p.estimate}, func(context.Context) (int64, error) { return p.used, nil })
		d, peekErr := limiter.Peek(ctx, prompt{"acme", 1})
		if peekErr != nil {
			log.Fatal(peekErr)
		}
		outcome := fmt.Sprint("used ", p.used)
		if err != nil {
			outcome = err.Error()
		}
		fmt.Printf("estimate %d: %s; %d tokens left\n", p.estimate, outcome, d.Results[1].Remaining)
	}
}
