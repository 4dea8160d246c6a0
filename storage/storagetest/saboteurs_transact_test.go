package storagetest_test

import (
	"context"
	"errors"
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

// inTransactions returns stores with a faulty Transact. They have the faults of update saboteurs in
// transactions of one update without a clock, which the laws of updates in place use.
func inTransactions(faulty []saboteur) (stores []saboteur) {
	for _, s := range faulty {
		stores = append(stores, saboteur{s.fault + ", in a transaction", s.law + ", in a transaction", func(r *reference, h *storagetest.Harness) storage.Store {
			inner := s.build(r, h).(driver.InPlace)
			return transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
				if len(updates) != 1 || clock != nil {
					return r.Transact(ctx, clock, updates...)
				}
				u := updates[0]
				if err := ctx.Err(); err != nil {
					return storage.NotApplied(err)
				}
				u.Now = r.clock.time()
				u.Err = inner.Update(ctx, u.Now, u.Keys, u.Decider)
				return nil
			})(r, h)
		}})
	}
	return stores
}

// deciding calls decide instead of the Decider of each update, under the lock.
func deciding(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update, decide func(u *driver.Update, found [][]byte, next []driver.Change) error) error {
	others := make([]*driver.Update, len(updates))
	for i, u := range updates {
		others[i] = &driver.Update{Keys: u.Keys}
		others[i].Decider = decider(func(found [][]byte, next []driver.Change) error {
			u.Now = others[i].Now
			return decide(u, found, next)
		})
	}
	err := r.Transact(ctx, clock, others...)
	for i, u := range updates {
		u.Now, u.Err = others[i].Now, others[i].Err
	}
	return err
}

// transactSaboteurs break laws that only transactions have.
var transactSaboteurs = []saboteur{
	{"ignores that the write of an update was dropped", "an update that the database drops is an error", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		err := r.Transact(ctx, clock, updates...)
		for _, u := range updates {
			if errors.Is(u.Err, errDropped) {
				u.Err = nil
			}
		}
		return err
	})},
	{"reads for each update the state before the transaction", "an update reads the changes of earlier updates", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		before := map[string][]byte{}
		return deciding(r, ctx, clock, updates, func(u *driver.Update, found [][]byte, next []driver.Change) error {
			for i, key := range u.Keys {
				if _, ok := before[key]; !ok {
					before[key] = found[i]
				}
				found[i] = before[key]
			}
			return u.Decider.Decide(found, next)
		})
	})},
	{"fails all updates after one that failed", "an update fails alone", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		var failed error
		return deciding(r, ctx, clock, updates, func(u *driver.Update, found [][]byte, next []driver.Change) error {
			if failed == nil {
				failed = u.Decider.Decide(found, next)
			}
			return failed
		})
	})},
	{"keeps the Err of an earlier transaction", "an update fails alone", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		return deciding(r, ctx, clock, updates, func(u *driver.Update, found [][]byte, next []driver.Change) error {
			if u.Err != nil {
				return u.Err
			}
			return u.Decider.Decide(found, next)
		})
	})},
	{"reads the clock for each update", "a transaction has one time", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		first := true
		return deciding(r, ctx, clock, updates, func(u *driver.Update, found [][]byte, next []driver.Change) error {
			if clock != nil && !first {
				u.Now = clock()
			}
			first = false
			return u.Decider.Decide(found, next)
		})
	})},
	{"sets Now after the decision", "a transaction has one time", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		return deciding(r, ctx, clock, updates, func(u *driver.Update, found [][]byte, next []driver.Change) error {
			if len(updates) > 1 {
				u.Now = time.Time{}
			}
			return u.Decider.Decide(found, next)
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
	{"stores the updates before one that panics", "a panic rolls back the transaction", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		returned := false
		defer func() {
			if !returned && len(updates) > 1 {
				_ = r.Transact(ctx, clock, updates[0])
			}
		}()
		err := r.Transact(ctx, clock, updates...)
		returned = true
		return err
	})},
}
