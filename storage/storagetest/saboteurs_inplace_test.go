package storagetest_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/storagetest"
)

// purgeAndTimeSaboteurs have a faulty Purge or clock.
var purgeAndTimeSaboteurs = []saboteur{
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
	{"uses its own clock for updates if it is ahead", "updates use their own time", updatingWith(func(r *reference, ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
		if own := r.clock.time(); own.After(now) {
			now = own
		}
		return r.Update(ctx, now, keys, d)
	})},
	// In transactions the clock advances, so their laws do not detect this fault.
	{"keeps the TTL of an update in seconds", "an update sets the TTL", updating(func(d driver.Decider, found [][]byte, next []driver.Change) error {
		err := d.Decide(found, next)
		for i := range next {
			if next[i].TTL > 0 {
				next[i].TTL = max(next[i].TTL.Truncate(time.Second), 1)
			}
		}
		return err
	})},
}

// updateSaboteurs have a faulty Update. They also serve as faulty transactions.
var updateSaboteurs = []saboteur{
	{"reads an absent key as an empty state", "an update reads the stored states", updating(func(d driver.Decider, found [][]byte, next []driver.Change) error {
		for i := range found {
			found[i] = append([]byte{}, found[i]...)
		}
		return d.Decide(found, next)
	})},
	{"writes a record with the verb Keep", "an update applies its changes", updating(func(d driver.Decider, found [][]byte, next []driver.Change) error {
		err := d.Decide(found, next)
		for i := range next {
			if next[i].Verb == driver.Keep && found[i] != nil && next[i].State != nil {
				next[i].Verb = driver.Put
			}
		}
		return err
	})},
	{"keeps the TTL of a replaced record", "an update sets the TTL", updatingWith(func(r *reference, ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
		return r.Update(ctx, now, keys, decider(func(found [][]byte, next []driver.Change) error {
			err := d.Decide(found, next)
			for i := range next {
				if k := r.records[keys[i]]; found[i] != nil && !k.expires.IsZero() && next[i].TTL > 0 {
					next[i].TTL = k.expires.Sub(now)
				}
			}
			return err
		}))
	})},
	{"keeps the version of a replaced record", "an update writes a new version", updatingWith(func(r *reference, ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
		before, _ := r.Load(ctx, keys...)
		err := r.Update(ctx, now, keys, d)
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range before {
			if k := r.records[keys[i]]; err == nil && k.Version != 0 && before[i].Version != 0 && !bytes.ContainsAny(k.State, "0123456789") {
				k.Version = before[i].Version
				r.records[keys[i]] = k
			}
		}
		return err
	})},
	{"applies the changes of a failed decision", "a failed update changes nothing", updatingWith(func(r *reference, ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
		var failed error
		err := r.Update(ctx, now, keys, decider(func(found [][]byte, next []driver.Change) error {
			failed = d.Decide(found, next)
			return nil
		}))
		return errors.Join(err, failed)
	})},
	{"returns another error than the decision", "a failed update changes nothing", updating(func(d driver.Decider, found [][]byte, next []driver.Change) error {
		if err := d.Decide(found, next); err != nil {
			return errors.New(err.Error())
		}
		return nil
	})},
	{"stays locked after a panic", "a panic changes nothing and releases the lock", updatingWith(func(r *reference, ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
		returned := false
		defer func() {
			if !returned && len(keys) > 1 {
				r.mu.Lock()
			}
		}()
		err := r.Update(ctx, now, keys, d)
		returned = true
		return err
	})},
	{"updates a key twice", "invalid updates are refused", updatingWith(func(r *reference, ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
		if errors.Is(driver.CheckKeys(keys), storage.ErrDuplicateKey) {
			keys = slices.Compact(slices.Sorted(slices.Values(keys)))
		}
		return r.Update(ctx, now, keys, d)
	})},
	{"ignores an unknown verb", "invalid updates are refused", updating(func(d driver.Decider, found [][]byte, next []driver.Change) error {
		err := d.Decide(found, next)
		for i := range next {
			if next[i].Verb > driver.Delete {
				next[i].Verb = driver.Keep
			}
		}
		return err
	})},
	{"does not copy the new state", "an update copies new states", updatingWith(func(r *reference, ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
		return r.Update(ctx, now, keys, decider(func(found [][]byte, next []driver.Change) error {
			err := d.Decide(found, next)
			defer func() {
				for i, c := range next {
					if len(c.State) > 0 && err == nil && len(keys) == 1 && !r.dropped[keys[i]] {
						r.aliased(now, keys[i], c)
						next[i].Verb = driver.Keep
					}
				}
			}()
			return err
		}))
	})},
	{"unlocks while it decides", "no increment is lost between updates and swaps", updatingWith(func(r *reference, ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
		return r.Update(ctx, now, keys, decider(func(found [][]byte, next []driver.Change) error {
			err := d.Decide(found, next)
			r.mu.Unlock()
			yield()
			r.mu.Lock()
			return err
		}))
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

// faultyUpdate has another Update.
type faultyUpdate struct {
	*reference
	update func(ctx context.Context, now time.Time, keys []string, d driver.Decider) error
}

func (p faultyUpdate) Update(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
	return p.update(ctx, now, keys, d)
}

type decider func(found [][]byte, next []driver.Change) error

func (d decider) Decide(found [][]byte, next []driver.Change) error { return d(found, next) }

// updatingWith returns a builder of stores that use update.
func updatingWith(update func(r *reference, ctx context.Context, now time.Time, keys []string, d driver.Decider) error) builder {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return faultyUpdate{r, func(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
			return update(r, ctx, now, keys, d)
		}}
	}
}

// updating returns a builder of stores that call decide instead of the Decider.
func updating(decide func(d driver.Decider, found [][]byte, next []driver.Change) error) builder {
	return updatingWith(func(r *reference, ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
		return r.Update(ctx, now, keys, decider(func(found [][]byte, next []driver.Change) error {
			return decide(d, found, next)
		}))
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
