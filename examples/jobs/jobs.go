// Jobs shows a limit on the jobs of a tenant that run at the same time, together with a rate.
//
//	go run ./examples/jobs
package main

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
)

// job is work for a tenant.
type job struct {
	tenant string
	work   func(context.Context) error
}

// jobRules allow each tenant 10 jobs at the same time, and 100 an hour in bursts of up to 20. If a process crashes, its jobs
// count for another 30 to 33 seconds.
func jobRules() []sluice.Rule[job] {
	tenant := func(j job) string { return j.tenant }
	return []sluice.Rule[job]{
		sluice.By("running", tenant, "inflight 10 ttl=30s"),
		sluice.By("rate", tenant, "gcra 100/h burst=20"),
	}
}

// run runs a job when the limits of its tenant allow it. The context of the job ends if its unit is lost and no other
// is left, for instance after this process could not reach the store for 30 seconds.
func run(ctx context.Context, limiter *sluice.Limiter[job], j job) error {
	for {
		d, err := limiter.Do(ctx, j, j.work)
		if err != nil || d.Allowed {
			return err
		}
		select {
		case <-time.After(min(d.RetryAfter, time.Second)): // a job of another process can end sooner
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func main() {
	limiter := sluice.MustFor(nil, jobRules()...) // to share the limits, pass a store
	began := time.Now()
	var running sync.WaitGroup
	for i := range 15 {
		running.Go(func() {
			err := run(context.Background(), limiter, job{"ann", func(context.Context) error {
				fmt.Printf("job %d starts after %v\n", i, time.Since(began).Round(time.Second))
				time.Sleep(time.Second)
				return nil
			}})
			if err != nil {
				log.Print(err)
			}
		})
	}
	running.Wait()
}
