// Importer shows a batch job that takes as many calls as its limit allows.
//
//	go run ./examples/importer
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sluice-go/sluice"
)

// importRows imports the rows of a tenant in batches of up to 100, as fast as the limit allows.
func importRows(ctx context.Context, limiter *sluice.Limiter[string], tenant string, rows []string, insert func([]string) error) error {
	for len(rows) > 0 {
		n, d, err := limiter.AllowUpTo(ctx, tenant, int64(min(len(rows), 100)))
		if err != nil {
			return err
		}
		if n == 0 { // RetryAfter is the time until one row is allowed; wait at least a second for a larger batch
			select {
			case <-time.After(max(d.RetryAfter, time.Second)):
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		if err := insert(rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func main() {
	limiter := sluice.MustNew(nil, "gcra 50/s burst=120")
	began := time.Now()
	err := importRows(context.Background(), limiter, "ann", make([]string, 250), func(batch []string) error {
		fmt.Printf("%d rows after %v\n", len(batch), time.Since(began).Round(time.Second))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
