package suggest

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
)

// Counts has what a policy denies.
type Counts struct {
	Denied        int64         `json:"denied"`
	ClientsDenied int64         `json:"keys_denied"` // keys that were denied at least once
	LongestWait   time.Duration `json:"-"`           // the longest RetryAfter
	Never         int64         `json:"-"`           // denials that no wait ends
}

func (c *Counts) add(d *Counts) {
	c.Denied += d.Denied
	c.ClientsDenied += d.ClientsDenied
	c.LongestWait = max(c.LongestWait, d.LongestWait)
	c.Never += d.Never
}

func (c *Counts) deny(wait time.Duration) {
	c.Denied++
	if wait == algo.Never {
		c.Never++
	} else {
		c.LongestWait = max(c.LongestWait, wait)
	}
}

// counter steps requests through a policy. The zero values of the fields after cost step all
// requests of all keys.
type counter struct {
	requests *Requests
	policy   algo.Policy
	cost     int64 // of a request; 0: as in the policy's options

	goal    *Goal   // stop when more than most are denied
	most    int64   // the most that the goal allows
	sure    bool    // leave out keys with so few requests that the policy cannot deny any
	byKey   []int64 // if not nil, gets the denials by key
	spent   atomic.Int64
	stopped atomic.Bool
}

// run returns the counts. If they exceed the goal they may be incomplete. It returns the error of ctx
// if that has ended.
func (r *counter) run(ctx context.Context) (Counts, error) {
	var total Counts
	keys := len(r.requests.keys)
	if r.sure {
		keys = r.requests.above(undeniable(r.policy, r.cost))
	}
	var next atomic.Int64
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(r.requests.batches)) {
		wg.Go(func() {
			w := worker{counter: r}
			err := w.run(ctx, &next, keys)
			mu.Lock()
			defer mu.Unlock()
			total.add(&w.counts)
			failed = cmp.Or(failed, err)
		})
	}
	wg.Wait()
	return total, cmp.Or(failed, ctx.Err())
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

// worker steps the requests of some keys.
type worker struct {
	*counter
	counts       Counts
	state, spare []byte
	reported     Counts // what is already in spent
}

// run takes batches of keys until none is left.
func (w *worker) run(ctx context.Context, next *atomic.Int64, keys int) error {
	batches := w.requests.batches
	for {
		b := int(next.Add(1)) - 1
		if b >= len(batches) || batches[b] >= keys {
			return nil
		}
		end := keys
		if b+1 < len(batches) {
			end = min(end, batches[b+1])
		}
		for k := batches[b]; k < end; k++ {
			if err := w.key(ctx, k); err != nil {
				return err
			}
			if w.stopped.Load() {
				return nil
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// key steps the requests of one key.
func (w *worker) key(ctx context.Context, k int) error {
	begin := 0
	if k > 0 {
		begin = w.requests.ends[k-1]
	}
	before := w.counts.Denied
	w.state = w.state[:0]
	for i, at := range w.requests.at[begin:w.requests.ends[k]] {
		const often = 4096
		if (i+1)%often == 0 && (w.exceeds() || ctx.Err() != nil) {
			break
		}
		next, result, err := w.policy.Step(w.spare[:0], w.state, time.Unix(0, at), w.cost)
		if err != nil {
			return err
		}
		if result.Allowed {
			w.spare, w.state = w.state, next
			continue
		}
		w.spare = next
		w.counts.deny(result.RetryAfter)
		if w.goal != nil && w.goal.Of == OfClients {
			break // one denial is all that matters
		}
	}
	denied := w.counts.Denied - before
	if w.byKey != nil {
		w.byKey[k] = denied
	}
	if denied > 0 {
		w.counts.ClientsDenied++
		w.exceeds()
	}
	return nil
}

// exceeds reports whether all workers together have counted more denials than the goal allows.
func (w *worker) exceeds() bool {
	if w.goal == nil {
		return false
	}
	now := w.goal.Count(&w.counts)
	spent := w.spent.Add(now - w.goal.Count(&w.reported))
	w.reported = w.counts
	if spent > w.most {
		w.stopped.Store(true)
	}
	return w.stopped.Load()
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
