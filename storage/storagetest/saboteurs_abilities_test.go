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

// ofAbilities break the laws of the optional abilities.
var ofAbilities = []saboteur{
	{"purges what has any TTL", "a purge takes only what has expired", func(r *reference, _ *storagetest.Harness) storage.Store {
		return purging{r, func(r *reference, ctx context.Context, max int) (removed int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for key, k := range r.kept {
				if removed < max && !k.expires.IsZero() && ctx.Err() == nil {
					delete(r.kept, key)
					removed++
				}
			}
			return removed
		}}
	}},
	{"purges beyond max", "a purge takes only what has expired", func(r *reference, _ *storagetest.Harness) storage.Store {
		return purging{r, func(r *reference, ctx context.Context, max int) int {
			removed, _ := r.Purge(ctx, 1000*max)
			return removed
		}}
	}},
	{"purges nothing", "a purge takes only what has expired", func(r *reference, _ *storagetest.Harness) storage.Store {
		return purging{r, func(*reference, context.Context, int) int { return 0 }}
	}},
	{"never purges what a purge has once found alive", "a purge takes only what has expired", func(r *reference, _ *storagetest.Harness) storage.Store {
		alive := map[string]bool{}
		return purging{r, func(r *reference, ctx context.Context, max int) (removed int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			now := r.world.time()
			for key, k := range r.kept {
				expired := !k.expires.IsZero() && !now.Before(k.expires)
				if alive[key] = alive[key] || !expired; !alive[key] && removed < max && ctx.Err() == nil {
					delete(r.kept, key)
					removed++
				}
			}
			return removed
		}}
	}},
	{"purges whatever the context says", "a purge of nothing removes nothing", func(r *reference, _ *storagetest.Harness) storage.Store {
		return purging{r, func(r *reference, _ context.Context, max int) int {
			removed, _ := r.Purge(context.Background(), max)
			return removed
		}}
	}},
	{"takes a negative max for no bound", "a purge of nothing removes nothing", func(r *reference, _ *storagetest.Harness) storage.Store {
		return purging{r, func(r *reference, ctx context.Context, max int) int {
			if max < 0 {
				max = math.MaxInt
			}
			removed, _ := r.Purge(ctx, max)
			return removed
		}}
	}},
	{"reads its own clock, where that is ahead, for an update", "records lapse by the decision's time", func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
			if own := r.world.time(); own.After(now) {
				now = own
			}
			return r.Update(ctx, now, keys, d)
		}}
	}},
	{"tells a time that is ahead", "the server tells the time", telling(func(r *reference, ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
		records, now, err := r.LoadNow(ctx, keys...)
		return records, now.Add(time.Second), err
	})},
	{"tells a time that is behind", "the server tells the time", telling(func(r *reference, ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
		records, now, err := r.LoadNow(ctx, keys...)
		return records, now.Add(-time.Second), err
	})},
	{"tells no time if no key is there", "the server tells the time", telling(func(r *reference, ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
		records, now, err := r.LoadNow(ctx, keys...)
		if !slices.ContainsFunc(records, func(r storage.Record) bool { return r.Version != 0 }) {
			now = time.Time{}
		}
		return records, now, err
	})},
	{"sorts the keys that it loads with the time", "the server tells the time", telling(func(r *reference, ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
		return r.LoadNow(ctx, slices.Sorted(slices.Values(keys))...)
	})},
	{"loads with the time whatever the context says", "the server tells the time", telling(func(r *reference, _ context.Context, keys []string) ([]storage.Record, time.Time, error) {
		return r.LoadNow(context.Background(), keys...)
	})},
	// A transaction has no time that stands still, so its laws do not notice this fault.
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

// updaters have their fault in Update, and so can have it in transactions too.
var updaters = []saboteur{
	{"shows an absent key as an empty state", "an update shows what is stored", updating(func(d driver.Decider, found [][]byte, next []driver.Change) error {
		for i := range found {
			found[i] = append([]byte{}, found[i]...)
		}
		return d.Decide(found, next)
	})},
	{"rewrites what an update keeps", "an update changes what it says", updating(func(d driver.Decider, found [][]byte, next []driver.Change) error {
		err := d.Decide(found, next)
		for i := range next {
			if next[i].Verb == driver.Keep && found[i] != nil && next[i].State != nil {
				next[i].Verb = driver.Put
			}
		}
		return err
	})},
	{"keeps the TTL of what an update replaces", "an update sets the TTL", func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
			return r.Update(ctx, now, keys, decider(func(found [][]byte, next []driver.Change) error {
				err := d.Decide(found, next)
				for i := range next {
					if k := r.kept[keys[i]]; found[i] != nil && !k.expires.IsZero() && next[i].TTL > 0 {
						next[i].TTL = k.expires.Sub(now)
					}
				}
				return err
			}))
		}}
	}},
	{"updates under the old version", "an update writes a fresh version", func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
			before, _ := r.Load(ctx, keys...)
			err := r.Update(ctx, now, keys, d)
			r.mu.Lock()
			defer r.mu.Unlock()
			for i := range before {
				if k := r.kept[keys[i]]; err == nil && k.Version != 0 && before[i].Version != 0 && !bytes.ContainsAny(k.State, "0123456789") {
					k.Version = before[i].Version
					r.kept[keys[i]] = k
				}
			}
			return err
		}}
	}},
	{"applies what a failed decision said", "a failed update changes nothing", func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
			var failed error
			err := r.Update(ctx, now, keys, decider(func(found [][]byte, next []driver.Change) error {
				failed = d.Decide(found, next)
				return nil
			}))
			return errors.Join(err, failed)
		}}
	}},
	{"returns the error of a decision in other words", "a failed update changes nothing", updating(func(d driver.Decider, found [][]byte, next []driver.Change) error {
		if err := d.Decide(found, next); err != nil {
			return errors.New(err.Error())
		}
		return nil
	})},
	{"stays locked after a panic", "a panic wedges nobody", func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
			returned := false
			defer func() {
				if !returned && len(keys) > 1 {
					r.mu.Lock()
				}
			}()
			err := r.Update(ctx, now, keys, d)
			returned = true
			return err
		}}
	}},
	{"updates a key twice", "an update refuses what a swap refuses", func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
			if errors.Is(driver.CheckKeys(keys), storage.ErrDuplicateKey) {
				keys = slices.Compact(slices.Sorted(slices.Values(keys)))
			}
			return r.Update(ctx, now, keys, d)
		}}
	}},
	{"keeps what a verb that there is not is said of", "an update refuses what a swap refuses", updating(func(d driver.Decider, found [][]byte, next []driver.Change) error {
		err := d.Decide(found, next)
		for i := range next {
			if next[i].Verb > driver.Delete {
				next[i].Verb = driver.Keep
			}
		}
		return err
	})},
	{"keeps the state of a decision", "an update shares no buffers", func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
			return r.Update(ctx, now, keys, decider(func(found [][]byte, next []driver.Change) error {
				err := d.Decide(found, next)
				defer func() {
					for i, c := range next {
						if len(c.State) > 0 && err == nil && len(keys) == 1 {
							r.aliased(now, keys[i], c)
							next[i].Verb = driver.Keep
						}
					}
				}()
				return err
			}))
		}}
	}},
	{"lets go of its lock while it decides", "updates and swaps count together", func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
			return r.Update(ctx, now, keys, decider(func(found [][]byte, next []driver.Change) error {
				err := d.Decide(found, next)
				r.mu.Unlock()
				hesitate()
				r.mu.Lock()
				return err
			}))
		}}
	}},
}

// teller is a saboteur among the stores that tell the server's time.
type teller struct {
	*reference
	tell func(ctx context.Context, keys []string) ([]storage.Record, time.Time, error)
}

func (t teller) LoadNow(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	return t.tell(ctx, keys)
}

func telling(tell func(r *reference, ctx context.Context, keys []string) ([]storage.Record, time.Time, error)) func(*reference, *storagetest.Harness) storage.Store {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return teller{r, func(ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
			return tell(r, ctx, keys)
		}}
	}
}

type purging struct {
	*reference
	purge func(r *reference, ctx context.Context, max int) int
}

func (p purging) Purge(ctx context.Context, max int) (int, error) {
	return p.purge(p.reference, ctx, max), ctx.Err()
}

// inPlace is a saboteur among the stores that decide in place.
type inPlace struct {
	*reference
	update func(ctx context.Context, now time.Time, keys []string, d driver.Decider) error
}

func (p inPlace) Update(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
	return p.update(ctx, now, keys, d)
}

type decider func(found [][]byte, next []driver.Change) error

func (d decider) Decide(found [][]byte, next []driver.Change) error { return d(found, next) }

// updating makes a saboteur that comes between an update and its decision.
func updating(decide func(d driver.Decider, found [][]byte, next []driver.Change) error) func(*reference, *storagetest.Harness) storage.Store {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
			return r.Update(ctx, now, keys, decider(func(found [][]byte, next []driver.Change) error {
				return decide(d, found, next)
			}))
		}}
	}
}

// aliased stores a change without copying its state; the lock is held.
func (r *reference) aliased(now time.Time, key string, c driver.Change) {
	k := kept{Record: storage.Record{Version: storage.NewVersion(), State: c.State}}
	if c.TTL > 0 {
		k.expires = now.Add(c.TTL)
	}
	r.kept[key] = k
}
