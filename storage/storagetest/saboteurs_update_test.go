package storagetest_test

import (
	"bytes"
	"context"
	"maps"
	"math"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/storagetest"
)

// purgeSaboteurs have a faulty Purge.
var purgeSaboteurs = []saboteur{
	{"purges all records with a TTL", "a purge removes only expired records", purging(func(r *reference, ctx context.Context, max int) (removed int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for key, k := range r.records {
			if removed < max && !k.expires.IsZero() && ctx.Err() == nil {
				delete(r.records, key)
				removed++
			}
		}
		return removed
	})},
	{"purges beyond max", "a purge removes only expired records", purging(func(r *reference, ctx context.Context, max int) int {
		removed, _ := r.Purge(ctx, 1000*max)
		return removed
	})},
	{"purges nothing", "a purge removes only expired records", purging(func(*reference, context.Context, int) int { return 0 })},
	{"never purges a record that an earlier purge found live", "a purge removes only expired records", func(r *reference, _ *storagetest.Harness) storage.Store {
		live := map[string]bool{}
		return faultyPurge{r, func(r *reference, ctx context.Context, max int) (removed int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			now := r.clock.time()
			for key, k := range r.records {
				expired := !k.expires.IsZero() && !now.Before(k.expires)
				if live[key] = live[key] || !expired; !live[key] && removed < max && ctx.Err() == nil {
					delete(r.records, key)
					removed++
				}
			}
			return removed
		}}
	}},
	{"purges with an ended context", "a cancelled or empty purge removes nothing", purging(func(r *reference, _ context.Context, max int) int {
		removed, _ := r.Purge(context.Background(), max)
		return removed
	})},
	{"has no bound for a negative max", "a cancelled or empty purge removes nothing", purging(func(r *reference, ctx context.Context, max int) int {
		if max < 0 {
			max = math.MaxInt
		}
		removed, _ := r.Purge(ctx, max)
		return removed
	})},
}

// updateSaboteurs have a fault in transactions of one update without a clock.
var updateSaboteurs = []saboteur{
	{"reads an absent key as an empty state", "an update reads the stored states", updating(func(d decider, at time.Time, found [][]byte, next []driver.Change) error {
		for i := range found {
			found[i] = append([]byte{}, found[i]...)
		}
		return d(at, found, next)
	})},
	{"writes a record with the verb Keep", "an update applies its changes", updating(func(d decider, at time.Time, found [][]byte, next []driver.Change) error {
		err := d(at, found, next)
		for i := range next {
			if next[i].Verb == driver.Keep && found[i] != nil && next[i].State != nil {
				next[i].Verb = driver.Put
			}
		}
		return err
	})},
	{"keeps the TTL of a replaced record", "an update sets the TTL", updatingWith(func(r *reference, now time.Time, keys []string, d decider) error {
		return r.update(now, now, keys, func(at time.Time, found [][]byte, next []driver.Change) error {
			err := d(at, found, next)
			for i := range next {
				if k := r.records[keys[i]]; found[i] != nil && !k.expires.IsZero() && next[i].TTL > 0 {
					next[i].TTL = k.expires.Sub(now)
				}
			}
			return err
		})
	})},
	{"keeps the version of a replaced record", "an update writes a new version", updatingWith(func(r *reference, now time.Time, keys []string, d decider) error {
		before := maps.Clone(r.records)
		err := r.update(now, now, keys, d)
		for _, key := range keys {
			old, k := before[key].Version, r.records[key]
			if err == nil && k.Version != 0 && old != 0 && !bytes.ContainsAny(k.State, "0123456789") {
				k.Version = old
				r.records[key] = k
			}
		}
		return err
	})},
	{"applies the changes of a refused update", "a refused update changes nothing", updatingWith(func(r *reference, now time.Time, keys []string, d decider) error {
		return r.update(now, now, keys, func(at time.Time, found [][]byte, next []driver.Change) error {
			_ = d(at, found, next)
			return nil
		})
	})},
	{"stays locked after a panic", "a panic changes nothing and releases the lock", transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		defer func() {
			if value := recover(); value != nil {
				if len(updates[0].Items) > 1 {
					r.mu.Lock()
				}
				panic(value)
			}
		}()
		return r.Transact(ctx, clock, updates...)
	})},
	{"stays locked after a runtime.Goexit", "a runtime.Goexit changes nothing and releases the lock", afterGoexit(func(r *reference, _ *driver.Update) {
		r.mu.Lock()
	})},
	{"stores the changes of an update that calls runtime.Goexit", "a runtime.Goexit changes nothing and releases the lock", afterGoexit(func(r *reference, u *driver.Update) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for i, key := range keysOf(u) {
			r.records[key] = storedRecord{Record: storage.Record{Version: storage.NewVersion(), State: u.Items[i].Next.State}}
		}
	})},
	{"transacts with an ended context", "a transaction with an ended context changes nothing", transacting(func(r *reference, _ context.Context, clock func() time.Time, updates []*driver.Update) error {
		return r.Transact(context.Background(), clock, updates...)
	})},
	{"does not copy the new state", "an update copies new states", updatingWith(func(r *reference, now time.Time, keys []string, d decider) error {
		return r.update(now, now, keys, func(at time.Time, found [][]byte, next []driver.Change) error {
			err := d(at, found, next)
			defer func() {
				for i, c := range next {
					if len(c.State) > 0 && err == nil && len(keys) == 1 && !r.dropped[keys[i]] {
						r.aliased(now, keys[i], c)
						next[i].Verb = driver.Keep
					}
				}
			}()
			return err
		})
	})},
	{"unlocks while it decides", "no increment is lost between updates and swaps", updatingWith(func(r *reference, now time.Time, keys []string, d decider) error {
		return r.update(now, now, keys, func(at time.Time, found [][]byte, next []driver.Change) error {
			err := d(at, found, next)
			r.mu.Unlock()
			yield()
			r.mu.Lock()
			return err
		})
	})},
}

// purging returns a builder of stores that use purge.
func purging(purge func(r *reference, ctx context.Context, max int) int) builder {
	return func(r *reference, _ *storagetest.Harness) storage.Store { return faultyPurge{r, purge} }
}

// faultyPurge has another Purge.
type faultyPurge struct {
	*reference
	purge func(r *reference, ctx context.Context, max int) int
}

func (p faultyPurge) Purge(ctx context.Context, max int) (int, error) {
	return p.purge(p.reference, ctx, max), ctx.Err()
}

// updatingWith returns a builder of stores that run a single update without a clock with update, under the lock.
func updatingWith(update func(r *reference, now time.Time, keys []string, d decider) error) builder {
	return transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		if len(updates) != 1 || clock != nil {
			return r.Transact(ctx, clock, updates...)
		}
		return r.transact(ctx, clock, updates, func(u *driver.Update, now, _ time.Time) error {
			return update(r, now, keysOf(u), r.deciderOf(u))
		})
	})
}

// updating returns a builder of stores that call decide instead of the decider.
func updating(decide func(d decider, now time.Time, found [][]byte, next []driver.Change) error) builder {
	return updatingWith(func(r *reference, now time.Time, keys []string, d decider) error {
		return r.update(now, now, keys, func(at time.Time, found [][]byte, next []driver.Change) error {
			return decide(d, at, found, next)
		})
	})
}

// aliased stores a change without a copy of its state. The caller holds the lock.
func (r *reference) aliased(now time.Time, key string, c driver.Change) {
	k := storedRecord{Record: storage.Record{Version: storage.NewVersion(), State: c.State}}
	if c.TTL > 0 {
		k.expires = now.Add(c.TTL)
	}
	r.records[key] = k
}

// afterGoexit calls do if the first update calls runtime.Goexit.
func afterGoexit(do func(r *reference, u *driver.Update)) builder {
	return transacting(func(r *reference, ctx context.Context, clock func() time.Time, updates []*driver.Update) error {
		returned := false
		defer func() {
			if value := recover(); value != nil {
				panic(value)
			}
			if !returned {
				do(r, updates[0])
			}
		}()
		err := r.Transact(ctx, clock, updates...)
		returned = true
		return err
	})
}
