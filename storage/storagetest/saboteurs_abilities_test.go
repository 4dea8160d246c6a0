package storagetest_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/storagetest"
)

// ofAbilities break the laws of the optional abilities.
var ofAbilities = []saboteur{
	{"fails the whole batch on one conflict", "a batch is many swaps", batching(func(r *reference, ctx context.Context, groups [][]storage.Swap) []storage.Outcome {
		outcomes := r.CompareAndSwapBatch(ctx, groups...)
		if i := slices.IndexFunc(outcomes, func(o storage.Outcome) bool { return !o.Swapped && o.Err == nil }); i >= 0 && len(groups) > 3 {
			for j := range outcomes {
				outcomes[j] = storage.Outcome{Current: outcomes[i].Current}
			}
		}
		return outcomes
	})},
	{"has no room for more than 200 groups", "a batch is many swaps", batching(func(r *reference, ctx context.Context, groups [][]storage.Swap) []storage.Outcome {
		outcomes := r.CompareAndSwapBatch(ctx, groups[:min(len(groups), 200)]...)
		for range groups[len(outcomes):] {
			outcomes = append(outcomes, storage.Outcome{Err: storage.NotApplied(errors.New("too many groups"))})
		}
		return outcomes
	})},
	{"locks the groups of a batch in the order they come", "overlapping batches never deadlock", func(r *reference, h *storagetest.Harness) storage.Store {
		var locks sync.Map
		return batching(func(r *reference, ctx context.Context, groups [][]storage.Swap) []storage.Outcome {
			outcomes, open := storage.BeginBatch(ctx, groups)
			for _, i := range open {
				lock, _ := locks.LoadOrStore(strings.Clone(groups[i][0].Key), make(chan struct{}, 1))
				select {
				case lock.(chan struct{}) <- struct{}{}:
					defer func() { <-lock.(chan struct{}) }()
				case <-ctx.Done():
					return r.CompareAndSwapBatch(ctx, groups...)
				}
				hesitate()
				o := &outcomes[i]
				o.Current, o.Swapped, o.Err = r.CompareAndSwap(ctx, groups[i]...)
			}
			return outcomes
		})(r, h)
	}},
	{"remembers in a series what it loaded", "a series is calls", func(r *reference, _ *storagetest.Harness) storage.Store {
		return serial{plain{Store: r, load: func(ctx context.Context, keys []string) ([]storage.Record, error) {
			seen, _ := ctx.Value(remembered{}).(map[string]storage.Record)
			records, err := r.Load(ctx, keys...)
			for i := range records {
				if old, ok := seen[keys[i]]; ok {
					records[i] = old
				} else if seen != nil {
					seen[keys[i]] = records[i]
				}
			}
			return records, err
		}}}
	}},
	{"keeps others out while a series goes on", "a series is calls", func(r *reference, _ *storagetest.Harness) storage.Store {
		var holder map[string]storage.Record
		return serial{plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			if seen, _ := ctx.Value(remembered{}).(map[string]storage.Record); seen != nil {
				holder = seen
			} else if holder != nil {
				<-ctx.Done()
			}
			return r.CompareAndSwap(ctx, swaps...)
		}}}
	}},
	{"tries a batch with a key in two groups", "a batch names no key twice", batching(func(r *reference, ctx context.Context, groups [][]storage.Swap) []storage.Outcome {
		outcomes := make([]storage.Outcome, len(groups))
		for i := range groups {
			outcomes[i] = r.CompareAndSwapBatch(ctx, groups[i])[0]
		}
		return outcomes
	})},
	{"tells the time backwards", "the server's clock runs on", func(r *reference, _ *storagetest.Harness) storage.Store {
		return &backwards{reference: r, now: r.world.time()}
	}},
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
	{"reads its own clock, where that is ahead, for a timed load", "records lapse by the decision's time", func(r *reference, _ *storagetest.Harness) storage.Store {
		return wallClock{r}
	}},

	{"shows an absent key as an empty state", "an update shows what is stored", updating(func(d storage.Decider, found [][]byte, next []storage.Change) error {
		for i := range found {
			found[i] = append([]byte{}, found[i]...)
		}
		return d.Decide(found, next)
	})},
	{"rewrites what an update keeps", "an update changes what it says", updating(func(d storage.Decider, found [][]byte, next []storage.Change) error {
		err := d.Decide(found, next)
		for i := range next {
			if next[i].Verb == storage.Keep && found[i] != nil && next[i].State != nil {
				next[i].Verb = storage.Put
			}
		}
		return err
	})},
	{"keeps the TTL of what an update replaces", "an update sets the TTL", func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d storage.Decider) error {
			return r.Update(ctx, now, keys, decider(func(found [][]byte, next []storage.Change) error {
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
	{"keeps the TTL of an update in seconds", "an update sets the TTL", updating(func(d storage.Decider, found [][]byte, next []storage.Change) error {
		err := d.Decide(found, next)
		for i := range next {
			if next[i].TTL > 0 {
				next[i].TTL = max(next[i].TTL.Truncate(time.Second), 1)
			}
		}
		return err
	})},
	{"updates under the old version", "an update writes a fresh version", func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d storage.Decider) error {
			before, _ := r.LoadAt(ctx, now, keys...)
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
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d storage.Decider) error {
			var failed error
			err := r.Update(ctx, now, keys, decider(func(found [][]byte, next []storage.Change) error {
				failed = d.Decide(found, next)
				return nil
			}))
			return errors.Join(err, failed)
		}}
	}},
	{"returns the error of a decision in other words", "a failed update changes nothing", updating(func(d storage.Decider, found [][]byte, next []storage.Change) error {
		if err := d.Decide(found, next); err != nil {
			return errors.New(err.Error())
		}
		return nil
	})},
	{"stays locked after a panic", "a panic wedges nobody", func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d storage.Decider) error {
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
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d storage.Decider) error {
			if errors.Is(storage.CheckKeys(keys), storage.ErrDuplicateKey) {
				keys = slices.Compact(slices.Sorted(slices.Values(keys)))
			}
			return r.Update(ctx, now, keys, d)
		}}
	}},
	{"keeps what a verb that there is not is said of", "an update refuses what a swap refuses", updating(func(d storage.Decider, found [][]byte, next []storage.Change) error {
		err := d.Decide(found, next)
		for i := range next {
			if next[i].Verb > storage.Delete {
				next[i].Verb = storage.Keep
			}
		}
		return err
	})},
	{"keeps the state of a decision", "an update shares no buffers", func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d storage.Decider) error {
			return r.Update(ctx, now, keys, decider(func(found [][]byte, next []storage.Change) error {
				err := d.Decide(found, next)
				defer func() {
					for i, c := range next {
						if len(c.State) > 0 && err == nil && len(keys) == 1 {
							r.aliased(keys[i], c)
							next[i].Verb = storage.Keep
						}
					}
				}()
				return err
			}))
		}}
	}},
	{"lets go of its lock while it decides", "updates and swaps count together", func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d storage.Decider) error {
			return r.Update(ctx, now, keys, decider(func(found [][]byte, next []storage.Change) error {
				err := d.Decide(found, next)
				r.mu.Unlock()
				hesitate()
				r.mu.Lock()
				return err
			}))
		}}
	}},
}

// batcher is a saboteur among the batchers.
type batcher struct {
	plain
	batch func(ctx context.Context, groups [][]storage.Swap) []storage.Outcome
}

func (b batcher) CompareAndSwapBatch(ctx context.Context, groups ...[]storage.Swap) []storage.Outcome {
	return b.batch(ctx, groups)
}

func batching(batch func(r *reference, ctx context.Context, groups [][]storage.Swap) []storage.Outcome) func(*reference, *storagetest.Harness) storage.Store {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return batcher{plain{Store: r}, func(ctx context.Context, groups [][]storage.Swap) []storage.Outcome {
			return batch(r, ctx, groups)
		}}
	}
}

// serial is a saboteur that tells the calls of a series by what it remembers for them.
type serial struct{ plain }

type remembered struct{}

func (s serial) Series(ctx context.Context) (context.Context, func()) {
	return context.WithValue(ctx, remembered{}, map[string]storage.Record{}), func() {}
}

type backwards struct {
	*reference
	now time.Time
}

func (b *backwards) Now(ctx context.Context) (time.Time, error) {
	b.now = b.now.Add(-1)
	return b.now, ctx.Err()
}

type purging struct {
	*reference
	purge func(r *reference, ctx context.Context, max int) int
}

func (p purging) Purge(ctx context.Context, max int) (int, error) {
	return p.purge(p.reference, ctx, max), ctx.Err()
}

type wallClock struct{ *reference }

func (w wallClock) LoadAt(ctx context.Context, now time.Time, keys ...string) ([]storage.Record, error) {
	if own := w.world.time(); own.After(now) {
		now = own
	}
	return w.reference.LoadAt(ctx, now, keys...)
}

// inPlace is a saboteur among the stores that decide in place.
type inPlace struct {
	*reference
	update func(ctx context.Context, now time.Time, keys []string, d storage.Decider) error
}

func (p inPlace) Update(ctx context.Context, now time.Time, keys []string, d storage.Decider) error {
	return p.update(ctx, now, keys, d)
}

type decider func(found [][]byte, next []storage.Change) error

func (d decider) Decide(found [][]byte, next []storage.Change) error { return d(found, next) }

// updating makes a saboteur that comes between an update and its decision.
func updating(decide func(d storage.Decider, found [][]byte, next []storage.Change) error) func(*reference, *storagetest.Harness) storage.Store {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return inPlace{r, func(ctx context.Context, now time.Time, keys []string, d storage.Decider) error {
			return r.Update(ctx, now, keys, decider(func(found [][]byte, next []storage.Change) error {
				return decide(d, found, next)
			}))
		}}
	}
}

// aliased stores a change without copying its state; the lock is held.
func (r *reference) aliased(key string, c storage.Change) {
	r.kept[key] = kept{Record: storage.Record{Version: storage.NewVersion(), State: c.State}}
}
