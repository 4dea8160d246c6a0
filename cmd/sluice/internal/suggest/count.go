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

	goal  *Goal   // stop when more than most are denied; nil: count all
	most  int64   // the most that the goal allows
	byKey []int64 // if not nil, gets the denials by key

	mu    sync.Mutex
	total Counts
}

// run returns the counts. If they exceed the goal they may be incomplete. It returns the error of ctx
// if that has ended.
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
			if steps++; steps%4096 == 0 && r.collect(ctx, &counts) {
				return nil
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
			if r.goal != nil && r.goal.Of == OfClients {
				break // one denial is all that matters
			}
		}
		if r.byKey != nil {
			r.byKey[k] = denied
		}
		if denied > 0 {
			counts.ClientsDenied++
		}
	}
	r.collect(ctx, &counts)
	return nil
}

// collect moves the counts of a worker to the total, and reports whether all workers can stop.
func (r *counter) collect(ctx context.Context, c *Counts) (stop bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total.add(c)
	*c = Counts{}
	return ctx.Err() != nil || r.goal != nil && r.goal.Count(&r.total) > r.most
}
