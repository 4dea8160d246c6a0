// Workers shows a pool of workers that waits for a limit.
//
//	go run ./examples/workers
package main

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
)

// job is work for a tenant.
type job struct {
	tenant string
	run    func(context.Context)
}

// newLimiter limits the jobs of a tenant. All processes with the same store share the limit.
func newLimiter(store storage.Store) (*sluice.Limiter[job], error) {
	return sluice.For(store, sluice.By("jobs", func(j job) string { return j.tenant }, "gcra 5/s burst=1"))
}

// process runs the jobs with several workers. If a tenant has used up its limit, its jobs wait and
// start in the order of the calls of Wait. This can differ slightly from the order in jobs.
// process returns when jobs is closed. It returns an error when ctx has ended or the limiter could not
// decide. Then the context of the running jobs ends, and those that wait do not run.
func process(ctx context.Context, limiter *sluice.Limiter[job], jobs <-chan job, workers int) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for j := range jobs {
				if _, err := limiter.Wait(ctx, j); err != nil {
					stop(err)
					return
				}
				j.run(ctx)
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

func main() {
	limiter, err := newLimiter(nil)
	if err != nil {
		log.Fatal(err)
	}
	jobs := make(chan job)
	go func() {
		defer close(jobs)
		for i := range 10 {
			jobs <- job{"ann", func(context.Context) { fmt.Println("job", i) }}
		}
	}()
	if err := process(context.Background(), limiter, jobs, 3); err != nil {
		log.Fatal(err)
	}
}
