package storagetest_test

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/storagetest"
)

// faultyTransact has another Transact.
type faultyTransact struct {
	*reference
	transact func(ctx context.Context, clock func() time.Time, updates []*driver.Update) error
}

func (t faultyTransact) Transact(ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
	return t.transact(ctx, clock, updates)
}

// transactFunc is a Transact that uses r.
type transactFunc func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error

func transacting(transact transactFunc) builder {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return faultyTransact{r, func(ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
			return transact(r, ctx, clock, updates)
		}}
	}
}

// deciding calls decide instead of the decider of each update, under the lock.
func deciding(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update, decide func(keys []string, d decider, now time.Time, found [][]byte, next []driver.Change) error) error {
	return r.transact(ctx, clock, updates, func(u *driver.Update, now, at time.Time) error {
		keys := keysOf(u)
		return r.update(now, at, keys, func(at time.Time, found [][]byte, next []driver.Change) error {
			return decide(keys, r.deciderOf(u), at, found, next)
		})
	})
}

// transactSaboteurs break laws that only transactions have.
var transactSaboteurs = []saboteur{
	{"finds records without TTLs in an update", "an update reads what is left of the TTL", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		err := r.Transact(ctx, clock, updates...)
		for _, u := range updates {
			for i := range u.Items {
				u.Items[i].Found.TTL = 0
			}
		}
		return err
	})},
	{"ignores that the write of an update was dropped", "an update that the database drops is an error", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		if err := r.Transact(ctx, clock, updates...); err != errDropped {
			return err
		}
		return nil
	})},
	{"reads for each update the state before the transaction", "an update reads the changes of earlier updates", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		before := map[string][]byte{}
		return deciding(r, ctx, clock, updates, func(keys []string, d decider, now time.Time, found [][]byte, next []driver.Change) error {
			for i, key := range keys {
				if _, ok := before[key]; !ok {
					before[key] = found[i]
				}
				found[i] = before[key]
			}
			return d(now, found, next)
		})
	})},
	{"refuses all updates after one that was refused", "an update is refused alone", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		var refused error
		return deciding(r, ctx, clock, updates, func(_ []string, d decider, now time.Time, found [][]byte, next []driver.Change) error {
			if refused == nil {
				refused = d(now, found, next)
			}
			return refused
		})
	})},
	{"reads the clock for each update", "a transaction has one time", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		first := true
		return deciding(r, ctx, clock, updates, func(_ []string, d decider, now time.Time, found [][]byte, next []driver.Change) error {
			if clock != nil && !first {
				now = clock()
			}
			first = false
			return d(now, found, next)
		})
	})},
	{"reads the clock before it locks", "the clock is read in the transaction", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		if clock != nil {
			now := clock()
			yield()
			clock = func() time.Time { return now }
		}
		return r.Transact(ctx, clock, updates...)
	})},
	{"counts a TTL only by its own clock", "a transaction keeps records by both clocks", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		err := r.Transact(ctx, clock, updates...)
		r.mu.Lock()
		defer r.mu.Unlock()
		for key, k := range r.records {
			if end := r.clock.time().Add(time.Hour); clock != nil && k.expires.After(end) {
				k.expires = end
				r.records[key] = k
			}
		}
		return err
	})},
	{"counts a TTL only by the clock of the transaction", "a transaction keeps records by both clocks", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		err := r.Transact(ctx, clock, updates...)
		r.mu.Lock()
		defer r.mu.Unlock()
		for key, k := range r.records {
			if clock != nil && !k.expires.IsZero() && !k.until.IsZero() {
				k.expires = k.until
				r.records[key] = k
			}
		}
		return err
	})},
	{"stays locked after a panic of one of several updates", "a transaction goes on after a panic of an earlier one", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		returned := false
		defer func() {
			if !returned && len(updates) > 1 {
				r.mu.Lock()
			}
		}()
		err := r.Transact(ctx, clock, updates...)
		returned = true
		return err
	})},
}
