package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// swap decides a request by Load, evaluate and CompareAndSwap until there is no conflict, on the caller's goroutine. Requests
// with a common key wait for each other, so only other processes cause conflicts.
func (q *queue) swap(ctx context.Context, r *Request) error {
	leave, err := q.engine.lanes.enter(ctx, q.lanesOf(r), q.engine.options.MaxQueue)
	if err != nil {
		return r.outcome(err)
	}
	defer leave()
	if time.Since(r.began) > time.Until(r.deadline) {
		if r.lastErr == nil && q.answersSince(r.began) {
			r.lastErr = errWaited
		}
		r.began = time.Now() // it has not waited for the store
	}
	if ctx.Err() != nil {
		return q.timeout(ctx, r, false)
	}
	err = q.repeat(ctx, r, q.trySwap)
	if err == nil && r.changes() { // it has had the locks
		q.free(r.keys)
	}
	return err
}

var errWaited = fmt.Errorf("%w: other calls with the same key took most of the time", storage.ErrContended)

// lanesOf returns the lanes that a request must wait in. A Peek waits for nobody.
func (q *queue) lanesOf(r *Request) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !r.writes():
		return nil
	case q.isHeld(r):
		return append([]string{heldLane}, r.keys...)
	}
	return r.keys
}

// trySwap makes one attempt.
func (q *queue) trySwap(ctx context.Context, r *Request) error {
	e := q.engine
	began := time.Now()
	records, now, err := e.store.Load(ctx, r.keys...)
	received := time.Now()
	if q.record(began, err); err == nil && len(records) != len(r.keys) {
		err = fmt.Errorf("engine: the store answered with %d records to %d keys", len(records), len(r.keys))
	}
	if err != nil {
		return storage.NotApplied(err)
	}
	if e.options.Clock != nil {
		now = e.options.Clock()
	}
	for i := range records {
		r.Items[i].Found = records[i]
	}
	if _, err = r.evaluate(now, false); err != nil {
		return final{err}
	}
	e.denials.update(r, clockReading{now, began, received})
	swaps := r.swaps(now)
	if len(swaps) == 0 {
		return nil
	}
	began = time.Now()
	_, swapped, err := e.store.CompareAndSwap(ctx, swaps...)
	if q.record(began, err); err == nil && !swapped {
		err = storage.NotApplied(fmt.Errorf("%w: %d attempts", storage.ErrContended, r.attempts.Load()))
	}
	return err
}

// swaps returns what the request changes.
func (r *Request) swaps(now time.Time) (swaps []storage.Swap) {
	version := storage.NewVersion()
	for i := range r.Items {
		change := &r.Items[i].Next
		swap := storage.Swap{Key: r.keys[i], Old: r.Items[i].Found.Version}
		switch change.Verb {
		case driver.Keep:
			continue
		case driver.Put:
			swap.New = storage.Record{Version: version, State: change.State}
			swap.TTL, swap.Priority, swap.Until = change.TTL, change.Priority, now.Add(change.TTL)
		}
		swaps = append(swaps, swap)
	}
	return swaps
}

// lanes lets one caller at a time use a key. The zero value is ready.
type lanes struct {
	mu    sync.Mutex
	byKey map[string]*lane
	users int
}

// lane is the callers of one key, in the order of arrival.
type lane struct {
	turn  chan struct{} // the caller whose turn it is has put an element into it
	users int
}

// enter waits for the turn of a caller on all its keys, or until ctx ends. The caller must call leave afterwards. An
// error means that too many callers wait.
func (l *lanes) enter(ctx context.Context, keys []string, max int) (leave func(), err error) {
	keys = slices.Sorted(slices.Values(keys)) // in one order, so that callers cannot wait for each other in a circle
	lanes, err := l.join(keys, max)
	if err != nil {
		return nil, err
	}
	turns := 0
	for ; turns < len(lanes) && ctx.Err() == nil; turns++ {
		select {
		case lanes[turns].turn <- struct{}{}:
		case <-ctx.Done():
			turns--
		}
	}
	return func() { l.leave(keys, lanes[:turns]) }, nil
}

// join returns the lanes of keys.
func (l *lanes) join(keys []string, max int) (lanes []*lane, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users >= max {
		return nil, overloaded(l.users)
	}
	l.users++
	if l.byKey == nil {
		l.byKey = map[string]*lane{}
	}
	for _, key := range keys {
		if l.byKey[key] == nil {
			l.byKey[key] = &lane{turn: make(chan struct{}, 1)}
		}
		l.byKey[key].users++
		lanes = append(lanes, l.byKey[key])
	}
	return lanes, nil
}

// leave ends the turns of a caller on some lanes, and its use of keys.
func (l *lanes) leave(keys []string, turns []*lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lane := range turns {
		<-lane.turn
	}
	l.users--
	for _, key := range keys {
		if l.byKey[key].users--; l.byKey[key].users == 0 {
			delete(l.byKey, key)
		}
	}
}
