package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/engine/denials"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// swap decides a request by Load, evaluate and CompareAndSwap until there is no conflict, on the caller's goroutine. Requests
// with a common key wait for each other, so only other processes cause conflicts.
func (q *queue) swap(ctx context.Context, c *call) error {
	q.mu.Lock()
	err := q.admit(c)
	q.mu.Unlock()
	if err != nil {
		return err
	}
	var locks []string // none for a Peek
	if c.writes() {
		locks = c.keys
	}
	unlock, err := q.lock(ctx, c, locks...)
	if err != nil {
		return c.outcome(err)
	}
	defer unlock()
	return q.repeat(ctx, c, q.trySwap)
}

// trySwap makes one attempt.
func (q *queue) trySwap(ctx context.Context, c *call) error {
	swaps, err := q.load(ctx, c)
	if len(swaps) == 0 { // also after an error
		return err
	}
	began := time.Now()
	_, swapped, err := q.engine.store.CompareAndSwap(ctx, swaps...)
	if q.record(began, err, true); err == nil && !swapped {
		err = storage.NotApplied(fmt.Errorf("%w: %d attempts", storage.ErrContended, c.evaluations.Load()))
	}
	return err
}

// load loads the records of a request, evaluates it, and returns what it changes.
func (q *queue) load(ctx context.Context, c *call) ([]storage.Swap, error) {
	e := q.engine
	began := time.Now()
	records, now, err := e.store.Load(ctx, c.keys...)
	received := time.Now()
	if q.record(began, err, false); err == nil && len(records) != len(c.keys) {
		err = fmt.Errorf("engine: the store answered with %d records to %d keys", len(records), len(c.keys))
	}
	if err != nil {
		return nil, storage.NotApplied(err)
	}
	stored := now
	if e.options.Clock != nil {
		now = e.options.Clock()
	}
	for i := range records {
		c.Items[i].Found = records[i]
	}
	if _, err = c.evaluate(now, false); err != nil {
		return nil, final{err}
	}
	e.updateDenials(c.Request, denials.Clock{At: now, Sent: began, Received: received})
	return c.swaps(now, stored), nil
}

// swaps returns what the request changes. It was decided at now, when the clock of the store showed stored.
func (r *Request) swaps(now, stored time.Time) (swaps []storage.Swap) {
	version := storage.NewVersion()
	for i := range r.Items {
		change := &r.Items[i].Next
		swap := storage.Swap{Key: r.keys[i], Old: r.Items[i].Found.Version}
		switch change.Verb {
		case driver.Keep:
			continue
		case driver.Put:
			swap.New = storage.Record{Version: version, State: change.State}
			swap.TTL, swap.Priority = driver.KeepFor(change.TTL, now, stored), change.Priority
		}
		swaps = append(swaps, swap)
	}
	return swaps
}
