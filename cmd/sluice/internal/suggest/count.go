package suggest

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
)

// Counts has what a policy denies. Allowed is 0.
type Counts struct {
	backtest.Counts
	ClientsDenied int64 `json:"keys_denied"` // keys that were denied at least once
}

func (c *Counts) add(d *Counts) {
	c.Denied += d.Denied
	c.ClientsDenied += d.ClientsDenied
	c.LongestWait = max(c.LongestWait, d.LongestWait)
	c.Never += d.Never
}

// counter steps requests through a policy.
type counter struct {
	keys   []key
	policy algo.Policy
	cost   int64 // of a request

	byKey []int64 // if not nil, gets the denials by key

	mu    sync.Mutex
	total Counts
}

// run returns the counts, or the error of ctx if that has ended.
func (r *counter) run(ctx context.Context) (Counts, error) {
	workers := min(runtime.GOMAXPROCS(0), len(r.keys))
	var group errgroup.Group
	for i := range workers {
		group.Go(func() error { return r.work(ctx, i, workers) })
	}
	err := group.Wait()
	return r.total, cmp.Or(err, ctx.Err())
}

// work steps the requests of every stride-th key. Keys are sorted by their requests, so all workers
// have about as many.
func (r *counter) work(ctx context.Context, first, stride int) error {
	var counts Counts
	var state, spare []byte
	steps := 0
	for k := first; k < len(r.keys); k += stride {
		denied := int64(0)
		state = state[:0]
		for _, at := range r.keys[k].at {
			if steps++; steps%4096 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			next, result, err := r.policy.Step(spare[:0], state, time.UnixMicro(at), r.cost)
			if err != nil {
				return err
			}
			spare, state = state, next // also after a denial, which can begin a penalty
			if result.Allowed {
				continue
			}
			denied++
			counts.Deny(result.RetryAfter)
		}
		if r.byKey != nil {
			r.byKey[k] = denied
		}
		if denied > 0 {
			counts.ClientsDenied++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total.add(&counts)
	return nil
}
