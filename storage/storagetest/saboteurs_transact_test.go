package storagetest_test

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/storagetest"
)

// transactor is a saboteur among the stores that decide in a transaction.
type transactor struct {
	*reference
	transact func(ctx context.Context, clock func() time.Time, updates []*driver.Update) error
}

func (t transactor) Transact(ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
	return t.transact(ctx, clock, updates)
}

func transacting(transact func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error) func(*reference, *storagetest.Harness) storage.Store {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return transactor{r, func(ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
			return transact(r, ctx, clock, updates)
		}}
	}
}

// inATransaction makes stores that have the faults of these in transactions of one update
// without a clock alone: the laws of updates in place ask for no others.
func inATransaction(faulty []saboteur) (stores []saboteur) {
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
				u.Now = r.world.time()
				u.Err = inner.Update(ctx, u.Now, u.Keys, u.Decider)
				return nil
			})(r, h)
		}})
	}
	return stores
}

// deciding calls decide instead of the Decider of each update. The lock is held.
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

// ofTransactions break the laws that transactions alone have.
var ofTransactions = []saboteur{
	{"shows each update what was stored before the transaction", "an update sees those before it", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		before := map[string][]byte{}
		return deciding(r, ctx, clock, updates, func(u *driver.Update, found [][]byte, next []driver.Change) error {
			for i, key := range u.Keys {
				if _, seen := before[key]; !seen {
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
	{"takes an update that failed before for one that fails", "an update fails alone", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
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
	{"sets the time when all is over", "a transaction has one time", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		return deciding(r, ctx, clock, updates, func(u *driver.Update, found [][]byte, next []driver.Change) error {
			if len(updates) > 1 {
				u.Now = time.Time{}
			}
			return u.Decider.Decide(found, next)
		})
	})},
	{"reads the clock before it has the lock", "the clock is read in the transaction", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		if clock != nil {
			now := clock()
			hesitate()
			clock = func() time.Time { return now }
		}
		return r.Transact(ctx, clock, updates...)
	})},
	{"counts a TTL by its own clock alone", "a transaction keeps records by both clocks", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		err := r.Transact(ctx, clock, updates...)
		r.mu.Lock()
		defer r.mu.Unlock()
		for key, k := range r.kept {
			if end := r.world.time().Add(time.Hour); clock != nil && k.expires.After(end) {
				k.expires = end
				r.kept[key] = k
			}
		}
		return err
	})},
	{"counts a TTL by the clock of the transaction alone", "a transaction keeps records by both clocks", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		err := r.Transact(ctx, clock, updates...)
		r.mu.Lock()
		defer r.mu.Unlock()
		for key, k := range r.kept {
			if clock != nil && !k.expires.IsZero() && !k.until.IsZero() {
				k.expires = k.until
				r.kept[key] = k
			}
		}
		return err
	})},
	{"stores the updates before one that panics", "a panic undoes the transaction", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
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
