package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// swap makes one attempt to decide a request by Load, evaluate and CompareAndSwap. If the reply of
// the last attempt was lost, it sends the same swaps again instead: they cannot be applied twice.
func (b *batch) swap(ctx context.Context, r *Request) {
	resend := len(r.swaps) > 0
	if !resend && !b.prepareSwaps(ctx, r) {
		return
	}
	began := time.Now()
	current, swapped, err := b.queue.engine.store.CompareAndSwap(ctx, r.swaps...)
	b.queue.record(began, err)
	if err == nil && !swapped && len(current) != len(r.swaps) {
		err = storage.NotApplied(fmt.Errorf("engine: the store answered with %d records to %d swaps", len(current), len(r.swaps)))
	}
	switch {
	case err != nil:
		if r.fail(err); !resend && errors.Is(err, storage.ErrNotApplied) {
			r.swaps = nil
		}
	case swapped || resend && stored(r.swaps, current):
		r.finish(nil)
	case resend && r.givesBack():
		r.finish(unknown(r.lastErr))
	default:
		r.swaps = nil
		r.fail(fmt.Errorf("%w: %d attempts", storage.ErrContended, r.attempts.Load()))
	}
}

// prepareSwaps decides a request on the stored records. It reports whether there is a change to store.
func (b *batch) prepareSwaps(ctx context.Context, r *Request) bool {
	began := time.Now()
	records, now, err := b.load(ctx, r.keys)
	received := time.Now()
	if b.queue.record(began, err); err != nil {
		r.fail(storage.NotApplied(err))
		return false
	}
	for i := range records {
		r.Items[i].Found = records[i]
	}
	if _, err = r.evaluate(now); err != nil {
		r.finish(err)
		return false
	}
	b.queue.engine.updateCache(r, clockReading{now, began, received})
	if r.addSwaps(records, now); len(r.swaps) == 0 {
		r.finish(nil)
		return false
	}
	return b.queue.markSent(r)
}

// markSent marks a request as sent, unless it was abandoned. Then its call has returned ErrNotApplied.
func (q *queue) markSent(r *Request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.state == abandoned {
		r.finish(nil)
		return false
	}
	r.state = sent
	return true
}

// load reads the records of keys and the time.
func (b *batch) load(ctx context.Context, keys []string) (records []storage.Record, now time.Time, err error) {
	e := b.queue.engine
	if e.server != nil && e.options.Clock == nil {
		records, now, err = e.peek(ctx, keys)
	} else {
		records, err = e.store.Load(ctx, keys...)
		if now = time.Now(); e.options.Clock != nil {
			now = e.options.Clock()
		}
	}
	if err == nil && len(records) != len(keys) {
		err = fmt.Errorf("engine: the store answered with %d records to %d keys", len(records), len(keys))
	}
	return records, now, err
}

// peek reads the records of keys and the time of the server.
func (e *Engine) peek(ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
	b := &driver.Batch{Version: storage.NewVersion(), Keys: keys, Requests: []driver.Request{{Times: 1}}}
	for i := range keys {
		b.Requests[0].Uses = append(b.Requests[0].Uses, driver.Use{Key: i, Op: driver.Peek})
	}
	if e.server.Run(ctx, b); b.Err != nil {
		return nil, time.Time{}, b.Err
	}
	return b.Found, b.At, errors.Join(b.KeyErr...)
}

// addSwaps adds the swaps for what the request changes.
func (r *Request) addSwaps(records []storage.Record, now time.Time) {
	version := storage.NewVersion()
	for i := range r.Items {
		change := &r.Items[i].Next
		swap := storage.Swap{Key: r.keys[i], Old: records[i].Version}
		switch change.Verb {
		case driver.Keep:
			continue
		case driver.Put:
			swap.New = storage.Record{Version: version, State: change.State}
			swap.TTL, swap.Priority, swap.Until = change.TTL, change.Priority, now.Add(change.TTL)
		}
		r.swaps = append(r.swaps, swap)
	}
}

// stored reports whether current proves that swaps were stored. They were stored at once, so one
// record is enough.
func stored(swaps []storage.Swap, current []storage.Record) bool {
	onlyDeletes, allAbsent := true, true
	for i, s := range swaps {
		if s.New.Version != 0 && current[i].Version == s.New.Version {
			return true
		}
		onlyDeletes = onlyDeletes && s.New.Version == 0
		allAbsent = allAbsent && current[i].Version == 0
	}
	return onlyDeletes && allAbsent
}
