package storagetest_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/storagetest"
)

// saboteur is a store that breaks one law and keeps all the others.
type saboteur struct {
	fault string // what it does
	law   string // the law it breaks
	build func(r *reference, h *storagetest.Harness) storage.Store
}

// plain hides the abilities of a store, and lets a saboteur replace its methods.
type plain struct {
	storage.Store
	load func(ctx context.Context, keys []string) ([]storage.Record, error)
	swap func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error)
}

func (p plain) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if p.load == nil {
		return p.Store.Load(ctx, keys...)
	}
	return p.load(ctx, keys)
}

func (p plain) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if p.swap == nil {
		return p.Store.CompareAndSwap(ctx, swaps...)
	}
	return p.swap(ctx, swaps)
}

// loading makes a saboteur that falsifies each record loaded.
func loading(falsify func(r storage.Record) storage.Record) func(*reference, *storagetest.Harness) storage.Store {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, load: func(ctx context.Context, keys []string) ([]storage.Record, error) {
			records, err := r.Load(ctx, keys...)
			for i := range records {
				records[i] = falsify(records[i])
			}
			return records, err
		}}
	}
}

// writing makes a saboteur that falsifies each swap before it is tried.
func writing(falsify func(r *reference, s *storage.Swap)) func(*reference, *storagetest.Harness) storage.Store {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			if storage.Check(swaps) == nil {
				swaps = slices.Clone(swaps)
				for i := range swaps {
					falsify(r, &swaps[i])
				}
			}
			return r.CompareAndSwap(ctx, swaps...)
		}}
	}
}

// keying makes a saboteur that falsifies keys.
func keying(falsify func(key string) string) func(*reference, *storagetest.Harness) storage.Store {
	return func(r *reference, h *storagetest.Harness) storage.Store {
		p := writing(func(_ *reference, s *storage.Swap) { s.Key = falsify(s.Key) })(r, h).(plain)
		p.load = func(ctx context.Context, keys []string) ([]storage.Record, error) {
			keys = slices.Clone(keys)
			for i := range keys {
				keys[i] = falsify(keys[i])
			}
			return r.Load(ctx, keys...)
		}
		return p
	}
}

// swapping makes a saboteur with a CompareAndSwap of its own, for swaps that are well formed.
func swapping(swap func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error)) func(*reference, *storagetest.Harness) storage.Store {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			if storage.Check(swaps) != nil || ctx.Err() != nil {
				return r.CompareAndSwap(ctx, swaps...)
			}
			return swap(r, ctx, swaps)
		}}
	}
}

// hesitate gives every other goroutine the chance to come between: those that wait for
// this processor, and, as it idles for a moment, those that wait for one that is busy
// with something else.
func hesitate() {
	for range 100 {
		runtime.Gosched()
	}
	time.Sleep(time.Microsecond)
}

// hesitant checks first, hesitates, and then writes whatever is there.
func hesitant(when func(storage.Swap) bool) func(*reference, *storagetest.Harness) storage.Store {
	return swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		if len(swaps) == 0 || !when(swaps[0]) {
			return r.CompareAndSwap(ctx, swaps...)
		}
		keys := make([]string, len(swaps))
		for i := range swaps {
			keys[i] = swaps[i].Key
		}
		current, err := r.Load(ctx, keys...)
		if err != nil || slices.ContainsFunc(swaps, func(s storage.Swap) bool { return current[slices.Index(keys, s.Key)].Version != s.Old }) {
			return current, false, err
		}
		hesitate()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range swaps {
			r.put(r.world.time(), s)
		}
		return nil, true, nil
	})
}

var saboteurs = []saboteur{
	{"an absent key has a state", "absent is zero", loading(func(r storage.Record) storage.Record {
		if r.Version == 0 {
			r.State = []byte{}
		}
		return r
	})},
	{"sorts the keys it loads", "loads answer in order", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, load: func(ctx context.Context, keys []string) ([]storage.Record, error) {
			return r.Load(ctx, slices.Sorted(slices.Values(keys))...)
		}}
	}},
	{"loads a repeated key once", "loads answer in order", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, load: func(ctx context.Context, keys []string) ([]storage.Record, error) {
			records, err := r.Load(ctx, keys...)
			for i := range records {
				if slices.Contains(keys[:i], keys[i]) {
					records[i] = storage.Record{}
				}
			}
			return records, err
		}}
	}},
	{"cannot load no keys", "nothing asked is nothing done", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, load: func(ctx context.Context, keys []string) ([]storage.Record, error) {
			if len(keys) == 0 {
				return nil, errors.New("wrong number of arguments for 'mget' command")
			}
			return r.Load(ctx, keys...)
		}}
	}},
	{"writes where nothing is, whatever was expected", "swap only what is there", writing(func(r *reference, s *storage.Swap) {
		if records, _ := r.Load(context.Background(), s.Key); len(records) == 1 && records[0].Version == 0 {
			s.Old = 0
		}
	})},
	{"refreshes the TTL on a lost race", "a loser changes nothing", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		current, swapped, err := r.CompareAndSwap(ctx, swaps...)
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range swaps {
			if k, ok := r.kept[s.Key]; ok && !swapped {
				k.expires = r.world.time().Add(s.TTL)
				if s.TTL == 0 {
					k.expires = time.Time{}
				}
				r.kept[s.Key] = k
			}
		}
		return current, swapped, err
	})},
	{"compares only the last key of three or more", "one stale key refuses all", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		if len(swaps) < 3 { // of two keys it would lose increments as well, now and then
			return r.CompareAndSwap(ctx, swaps...)
		}
		if current, swapped, err := r.CompareAndSwap(ctx, swaps[len(swaps)-1]); !swapped || err != nil {
			all, _ := r.Load(ctx, swaps[0].Key)
			for _, s := range swaps[1 : len(swaps)-1] {
				one, _ := r.Load(ctx, s.Key)
				all = append(all, one...)
			}
			return append(all, current...), false, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range swaps[:len(swaps)-1] {
			r.put(r.world.time(), s)
		}
		return nil, true, nil
	})},
	{"tears a swap of several keys", "all or nothing", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		current, swapped, err := r.CompareAndSwap(ctx, swaps...)
		r.mu.Lock()
		defer r.mu.Unlock()
		for i, s := range swaps {
			if swapped || current[i].Version != s.Old {
				break
			}
			r.put(r.world.time(), s)
		}
		return current, swapped, err
	})},
	{"returns only the keys that were stale", "conflict returns what is stored", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		current, swapped, err := r.CompareAndSwap(ctx, swaps...)
		for i := range current {
			if current[i].Version == swaps[i].Old {
				current[i] = storage.Record{}
			}
		}
		return current, swapped, err
	})},
	{"does not delete", "the zero record deletes", writing(func(_ *reference, s *storage.Swap) {
		if s.New.Version == 0 {
			s.New = storage.Record{Version: storage.NewVersion(), State: []byte("deleted")}
		}
	})},
	{"drops NULs", "states are opaque", loading(func(r storage.Record) storage.Record {
		r.State = bytes.ReplaceAll(r.State, []byte{0}, nil)
		return r
	})},
	{"mends UTF-8", "states are opaque", loading(func(r storage.Record) storage.Record {
		if r.State != nil {
			r.State = bytes.ToValidUTF8(r.State, []byte("\ufffd"))
		}
		return r
	})},
	{"takes an empty state for none", "empty is not absent", loading(func(r storage.Record) storage.Record {
		if len(r.State) == 0 {
			return storage.Record{}
		}
		return r
	})},
	{"ends keys at a NUL", "keys are opaque", keying(func(key string) string {
		if before, _, cut := strings.Cut(key, "\x00"); cut && !strings.HasPrefix(key, "k\x03law") {
			return before
		}
		return key
	})},
	{"ignores the case of keys", "keys are opaque", keying(strings.ToLower)},
	{"keeps versions as floating point", "versions are opaque", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		swaps = slices.Clone(swaps)
		for i, s := range swaps {
			if now, _ := r.Load(ctx, s.Key); len(now) == 1 && s.Old != 0 && float64(now[0].Version) == float64(s.Old) {
				swaps[i].Old = now[0].Version
			}
		}
		return r.CompareAndSwap(ctx, swaps...)
	})},
	{"keeps the caller's state", "buffers are not shared", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		current, swapped, err := r.CompareAndSwap(ctx, swaps...)
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range swaps {
			if k, ok := r.kept[s.Key]; ok && swapped && k.Version == s.New.Version {
				k.State = s.New.State
				r.kept[strings.Clone(s.Key)] = k
			}
		}
		return current, swapped, err
	})},
	{"keeps the caller's key", "buffers are not shared", func(r *reference, _ *storagetest.Harness) storage.Store {
		names := map[string]string{} // finds the clone by the caller's string
		var mu sync.Mutex
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			mu.Lock()
			defer mu.Unlock()
			current, swapped, err := r.CompareAndSwap(ctx, swaps...)
			for _, s := range swaps {
				if swapped && s.New.Version != 0 {
					names[s.Key] = s.Key
				} else if swapped {
					delete(names, s.Key)
				}
			}
			return current, swapped, err
		}, load: func(ctx context.Context, keys []string) ([]storage.Record, error) {
			mu.Lock()
			defer mu.Unlock()
			records, err := r.Load(ctx, keys...)
			for i := range records {
				if _, ok := names[keys[i]]; !ok {
					records[i] = storage.Record{}
				}
			}
			return records, err
		}}
	}},
	{"hands out what it keeps", "buffers are not shared", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, load: func(ctx context.Context, keys []string) ([]storage.Record, error) {
			records, err := r.Load(ctx, keys...)
			r.mu.Lock()
			defer r.mu.Unlock()
			for i := range records {
				if records[i].Version != 0 {
					records[i].State = r.kept[keys[i]].State
				}
			}
			return records, err
		}}
	}},
	{"hands out what it keeps on a conflict", "buffers are not shared", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		current, swapped, err := r.CompareAndSwap(ctx, swaps...)
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range current {
			if current[i].Version != 0 {
				current[i].State = r.kept[swaps[i].Key].State
			}
		}
		return current, swapped, err
	})},
	{"lets the last of two swaps win", "duplicates are refused", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			if errors.Is(storage.Check(swaps), storage.ErrDuplicateKey) {
				swaps = slices.Clone(swaps)
				for i := 0; i < len(swaps); i++ {
					swaps = append(swaps[:i+1], slices.DeleteFunc(slices.Clone(swaps[i+1:]), func(s storage.Swap) bool { return s.Key == swaps[i].Key })...)
				}
			}
			return r.CompareAndSwap(ctx, swaps...)
		}}
	}},
	{"cuts long keys", "what cannot be stored is refused", func(r *reference, _ *storagetest.Harness) storage.Store {
		cut := func(key string) string { return key[:min(len(key), storage.MaxKey)] }
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			swaps = slices.Clone(swaps)
			for i := range swaps {
				swaps[i].Key = cut(swaps[i].Key)
			}
			return r.CompareAndSwap(ctx, swaps...)
		}, load: func(ctx context.Context, keys []string) ([]storage.Record, error) {
			keys = slices.Clone(keys)
			for i := range keys {
				keys[i] = cut(keys[i])
			}
			return r.Load(ctx, keys...)
		}}
	}},
	{"ignores the context", "a cancelled call writes nothing", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, swap: func(_ context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			return r.CompareAndSwap(context.Background(), swaps...)
		}}
	}},
	{"does not say that a cancelled call wrote nothing", "a cancelled call writes nothing", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			if err := ctx.Err(); err != nil {
				return nil, false, err
			}
			return r.CompareAndSwap(ctx, swaps...)
		}}
	}},
	{"keeps TTLs in seconds", "nothing vanishes before its TTL", writing(func(_ *reference, s *storage.Swap) {
		s.TTL = max(s.TTL.Truncate(time.Second), min(s.TTL, 1))
	})},
	{"overflows on a long TTL", "nothing vanishes before its TTL", writing(func(r *reference, s *storage.Swap) {
		if now := r.world.time().UnixNano(); s.TTL > 0 && now+int64(s.TTL) < now {
			s.TTL = 1
		}
	})},
	{"gives every record some TTL", "zero TTL never expires", writing(func(_ *reference, s *storage.Swap) {
		if s.TTL == 0 {
			s.TTL = 1000 * time.Hour
		}
	})},
	{"never expires anything", "an expired key is absent", writing(func(_ *reference, s *storage.Swap) { s.TTL = 0 })},
	{"keeps the first TTL", "the winner sets the TTL", writing(func(r *reference, s *storage.Swap) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if k := r.kept[s.Key]; k.Version != 0 && k.Version == s.Old {
			s.TTL = 0
			if !k.expires.IsZero() {
				s.TTL = k.expires.Sub(r.world.time())
			}
		}
	})},
	{"checks for absence before it creates", "one creator wins", hesitant(func(s storage.Swap) bool { return s.Old == 0 && s.New.Version != 0 })},
	{"reads before it writes", "no increment is lost", hesitant(func(s storage.Swap) bool { return s.Old != 0 && s.New.Version != 0 })},
	{"locks keys in the order they come", "opposite orders never deadlock", func(r *reference, _ *storagetest.Harness) storage.Store {
		var locks sync.Map
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			if storage.Check(swaps) != nil || ctx.Err() != nil {
				return r.CompareAndSwap(ctx, swaps...)
			}
			for _, s := range swaps {
				lock, _ := locks.LoadOrStore(strings.Clone(s.Key), make(chan struct{}, 1))
				select {
				case lock.(chan struct{}) <- struct{}{}:
					defer func() { <-lock.(chan struct{}) }()
				case <-ctx.Done():
					return nil, false, storage.NotApplied(ctx.Err())
				}
				hesitate()
			}
			return r.CompareAndSwap(ctx, swaps...)
		}}
	}},
	{"shares its table", "two stores do not meet", func(r *reference, h *storagetest.Harness) storage.Store {
		h.Other = r
		return plain{Store: r}
	}},

	{"fails the whole batch on one conflict", "a batch is many swaps", batching(func(r *reference, ctx context.Context, groups [][]storage.Swap) []storage.Outcome {
		outcomes := r.CompareAndSwapBatch(ctx, groups...)
		if i := slices.IndexFunc(outcomes, func(o storage.Outcome) bool { return !o.Swapped && o.Err == nil }); i >= 0 {
			for j := range outcomes {
				outcomes[j] = storage.Outcome{Current: outcomes[i].Current}
			}
		}
		return outcomes
	})},
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
	{"ignores the context of a batch", "a cancelled batch writes nothing", batching(func(r *reference, _ context.Context, groups [][]storage.Swap) []storage.Outcome {
		return r.CompareAndSwapBatch(context.Background(), groups...)
	})},
	{"tells the time backwards", "the server's clock runs on", func(r *reference, _ *storagetest.Harness) storage.Store {
		return &backwards{reference: r, now: r.world.time()}
	}},
	{"purges what has any TTL", "a purge takes only what has expired", func(r *reference, _ *storagetest.Harness) storage.Store {
		return purging{r, func(r *reference, _ context.Context, max int) (removed int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for key, k := range r.kept {
				if removed < max && !k.expires.IsZero() {
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
	{"reads its own clock for a timed load", "records lapse by the decision's time", func(r *reference, _ *storagetest.Harness) storage.Store {
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
	return p.purge(p.reference, ctx, max), nil
}

type wallClock struct{ *reference }

func (w wallClock) LoadAt(ctx context.Context, _ time.Time, keys ...string) ([]storage.Record, error) {
	return w.Load(ctx, keys...)
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
