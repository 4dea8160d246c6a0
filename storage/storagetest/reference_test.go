package storagetest_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/storagetest"
)

// reference is a simple store that keeps every law and implements every optional interface. It keeps the
// keys that it gets, as a map does.
type reference struct {
	clock      *sharedClock
	mu         sync.Mutex
	records    map[string]storedRecord
	unreadable map[string]bool
	dropped    map[string]bool                    // the keys whose writes fail
	edit       func(*driver.Batch, *storage.Swap) // changes the writes of batches; may be nil
}

type storedRecord struct {
	storage.Record
	expires time.Time // zero: never
	until   time.Time // of the swap
}

// sharedClock is the clock of the stores of one database.
type sharedClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *sharedClock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *sharedClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newReference(c *sharedClock) *reference {
	return &reference{clock: c, records: map[string]storedRecord{}, unreadable: map[string]bool{}, dropped: map[string]bool{}}
}

func newHarness() (storagetest.Harness, *reference) {
	c := &sharedClock{now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
	r := newReference(c)
	return storagetest.Harness{Store: r, Other: newReference(c), Advance: c.advance, Now: c.time, Spoil: r.spoil, DropWrites: r.drop}, r
}

var errDropped = storage.NotApplied(errors.New("a write was dropped"))

func (r *reference) drop(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped[key] = true
}

// find returns the live record of key.
func (r *reference) find(now time.Time, key string) storage.Record {
	k := r.records[key]
	if k.Record.TTL = 0; !k.expires.IsZero() {
		if k.Record.TTL = k.expires.Sub(now); k.Record.TTL <= 0 {
			return storage.Record{}
		}
	}
	return k.Record
}

func (r *reference) put(now time.Time, swap storage.Swap) {
	if swap.New.Version == 0 {
		delete(r.records, swap.Key)
		return
	}
	k := storedRecord{Record: copied(swap.New), until: swap.Until}
	if swap.TTL > 0 {
		k.expires = now.Add(swap.TTL)
		if swap.Until.After(k.expires) {
			k.expires = swap.Until
		}
	}
	r.records[swap.Key] = k
}

func copied(r storage.Record) storage.Record {
	if r.Version == 0 {
		return storage.Record{}
	}
	return storage.Record{Version: r.Version, State: append([]byte{}, r.State...), TTL: r.TTL}
}

func (r *reference) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, err
	}
	if err := driver.CheckLoad(keys); err != nil {
		return nil, time.Time{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, records := r.clock.time(), make([]storage.Record, len(keys))
	for i, key := range keys {
		records[i] = copied(r.find(now, key))
	}
	return records, now, nil
}

func (r *reference) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if _, err := driver.BeginSwap(ctx, swaps); err != nil {
		return nil, false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, current, stale := r.clock.time(), make([]storage.Record, len(swaps)), false
	for i, swap := range swaps {
		current[i] = copied(r.find(now, swap.Key))
		stale = stale || current[i].Version != swap.Old
	}
	if stale {
		return current, false, nil
	}
	for _, swap := range swaps {
		if r.dropped[swap.Key] {
			return nil, false, errDropped
		}
	}
	for _, swap := range swaps {
		r.put(now, swap)
	}
	return nil, true, nil
}

func (r *reference) Purge(ctx context.Context, max int) (removed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := r.clock.time()
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, k := range r.records {
		if removed < max && !k.expires.IsZero() && !now.Before(k.expires) {
			delete(r.records, key)
			removed++
		}
	}
	return removed, nil
}

// decider decides an update. found[i] is the state of the i-th key, and nil if and only if the key is absent.
type decider func(now time.Time, found [][]byte, next []driver.Change) error

var errRefused = errors.New("the update was refused")

// deciderOf returns the decider that calls Decide of an update.
func (r *reference) deciderOf(u *driver.Update) decider {
	return func(now time.Time, found [][]byte, next []driver.Change) error {
		for i := range u.Items {
			u.Items[i].Found, u.Items[i].Next = storage.Record{}, driver.Change{}
			if found[i] != nil {
				u.Items[i].Found = storage.Record{Version: 1, State: found[i], TTL: r.find(r.clock.time(), u.Items[i].Key.String()).TTL}
			}
		}
		ok := u.Decide(now)
		for i := range next {
			next[i] = u.Items[i].Next
		}
		if !ok {
			return errRefused
		}
		return nil
	}
}

func keysOf(u *driver.Update) (keys []string) {
	for i := range u.Items {
		keys = append(keys, u.Items[i].Key.String())
	}
	return keys
}

// update decides one update at the time at. now is the time of the store's clock. The caller holds the lock.
func (r *reference) update(now, at time.Time, keys []string, d decider) error {
	found, next := make([][]byte, len(keys)), make([]driver.Change, len(keys))
	for i, key := range keys {
		found[i] = r.find(now, key).State
	}
	if err := d(at, found, next); err != nil {
		return err
	}
	for i, c := range next {
		if c.Verb != driver.Keep && r.dropped[keys[i]] {
			return errDropped
		}
	}
	for i, c := range next {
		switch c.Verb {
		case driver.Put:
			r.put(now, storage.Swap{Key: keys[i], TTL: c.TTL, Until: at.Add(c.TTL), New: storage.Record{Version: storage.NewVersion(), State: c.State}})
		case driver.Delete:
			delete(r.records, keys[i])
		}
	}
	return nil
}

func (r *reference) Transact(ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
	return r.transact(ctx, clock, updates, func(u *driver.Update, now, at time.Time) error {
		return r.update(now, at, keysOf(u), r.deciderOf(u))
	})
}

// transact runs updates with run under the lock.
func (r *reference) transact(ctx context.Context, clock func() time.Time, updates []*driver.Update, run func(u *driver.Update, now, at time.Time) error) (err error) {
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, before, stored := r.clock.time(), maps.Clone(r.records), false
	defer func() {
		if !stored {
			r.records = before
		}
	}()
	at := now
	if clock != nil {
		at = clock()
	}
	for _, u := range updates {
		if err := run(u, now, at); err != nil && err != errRefused {
			return err
		}
	}
	stored = true
	return nil
}
