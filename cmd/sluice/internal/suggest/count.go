package suggest

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
)

// Counts has what a policy denies. Allowed is 0.
type Counts struct {
	replay.Counts
	ClientsDenied int64 `json:"keys_denied"` // keys that were denied at least once
}

func (c *Counts) add(d *Counts) {
	c.Denied += d.Denied
	c.ClientsDenied += d.ClientsDenied
	c.LongestWait = max(c.LongestWait, d.LongestWait)
	c.Never += d.Never
}

// counter steps requests through a policy. The zero values of the fields after cost step all
// requests of all keys.
type counter struct {
	requests *Requests
	policy   algo.Policy
	cost     int64 // of a request; 0: as in the policy's options

	goal  *Goal   // stop when more than most are denied
	most  int64   // the most that the goal allows
	sure  bool    // leave out keys with so few requests that the policy cannot deny any
	byKey []int64 // if not nil, gets the denials by key

	mu    sync.Mutex
	total Counts
	next  int // the next batch of keys
}

// run returns the counts. If they exceed the goal they may be incomplete. It returns the error of ctx
// if that has ended.
func (r *counter) run(ctx context.Context) (Counts, error) {
	keys := len(r.requests.keys)
	if r.sure {
		keys = r.requests.above(undeniable(r.policy, r.cost))
	}
	workers := min(runtime.GOMAXPROCS(0), len(r.requests.batches))
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() { errs[i] = r.work(ctx, keys) })
	}
	wg.Wait()
	return r.total, cmp.Or(cmp.Or(errs...), ctx.Err())
}

var epoch = time.Unix(0, 0)

// undeniable returns how many requests a key can always send under the policy: as many as its
// capacity has units for. No algorithm denies a key before it has spent its capacity.
func undeniable(p algo.Policy, cost int64) int64 {
	most := int64(math.MaxInt64)
	for _, part := range replay.Parts(p) {
		fresh, err := part.Peek(nil, epoch, cost)
		if err != nil || fresh.Cost < 1 {
			return 0
		}
		most = min(most, fresh.Limit/fresh.Cost)
	}
	return most
}

// exceeds reports whether the counts are more than the goal allows.
func (r *counter) exceeds(c *Counts) bool { return r.goal != nil && r.goal.Count(c) > r.most }

// work takes batches of keys until none is left, or the goal is exceeded.
func (r *counter) work(ctx context.Context, keys int) error {
	batches := r.requests.batches
	var w worker
	for {
		r.mu.Lock()
		r.total.add(&w.counts)
		w.counts = Counts{}
		b := r.next
		r.next++
		done := r.exceeds(&r.total)
		r.mu.Unlock()
		if done || b >= len(batches) || batches[b] >= keys || ctx.Err() != nil {
			return nil
		}
		end := keys
		if b+1 < len(batches) {
			end = min(end, batches[b+1])
		}
		for k := batches[b]; k < end && !r.exceeds(&w.counts); k++ {
			if err := w.step(ctx, r, k); err != nil {
				return err
			}
		}
	}
}

// worker steps the requests of some keys.
type worker struct {
	counts       Counts // of the current batch
	state, spare []byte
}

// step steps the requests of one key.
func (w *worker) step(ctx context.Context, r *counter, k int) error {
	begin := 0
	if k > 0 {
		begin = r.requests.ends[k-1]
	}
	before := w.counts.Denied
	w.state = w.state[:0]
	for i, at := range r.requests.at[begin:r.requests.ends[k]] {
		const often = 4096
		if (i+1)%often == 0 && (r.exceeds(&w.counts) || ctx.Err() != nil) {
			break
		}
		next, result, err := r.policy.Step(w.spare[:0], w.state, time.Unix(0, at), r.cost)
		if err != nil {
			return err
		}
		if result.Allowed {
			w.spare, w.state = w.state, next
			continue
		}
		w.spare = next
		w.counts.Deny(result.RetryAfter)
		if r.goal != nil && r.goal.Of == OfClients {
			break // one denial is all that matters
		}
	}
	denied := w.counts.Denied - before
	if r.byKey != nil {
		r.byKey[k] = denied
	}
	if denied > 0 {
		w.counts.ClientsDenied++
	}
	return nil
}

// denials returns the keys with denials, sorted.
func (r *Requests) denials(byKey []int64) []replay.Denials {
	all := []replay.Denials{} // nil would be null in JSON
	for i, n := range byKey {
		if n > 0 {
			all = append(all, replay.Denials{Key: r.keys[i].name, Denied: n})
		}
	}
	replay.SortDenials(all)
	return all
}
