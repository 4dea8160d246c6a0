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
	"github.com/sluice-go/sluice/storage/driver"
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
			if driver.Check(swaps) == nil {
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
			if driver.Check(swaps) != nil || ctx.Err() != nil {
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

// saboteurs are all of them.
var saboteurs = slices.Concat(swappers, loaders, plainOnes, ofAbilities, updaters, inATransaction(updaters), ofTransactions,
	ofServers, inRandomBatches)

// swappers have their fault in CompareAndSwap.
var swappers = []saboteur{
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
	{"keeps the caller's key", "buffers are not shared", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		current, swapped, err := r.CompareAndSwap(ctx, swaps...)
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range swaps {
			if k, ok := r.kept[s.Key]; ok && swapped {
				delete(r.kept, s.Key)
				r.kept[s.Key] = k
			}
		}
		return current, swapped, err
	})},
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
			if errors.Is(driver.Check(swaps), storage.ErrDuplicateKey) {
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
			if driver.Check(swaps) != nil || ctx.Err() != nil {
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
	{"takes the same state for no write", "swap only what is there", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		swaps = slices.Clone(swaps)
		for i := range swaps {
			if now, _ := r.Load(ctx, swaps[i].Key); now[0].Version != 0 && bytes.Equal(now[0].State, swaps[i].New.State) {
				swaps[i].New.Version = now[0].Version
			}
		}
		return r.CompareAndSwap(ctx, swaps...)
	})},
	{"returns what it replaced", "conflict returns what is stored", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		current, swapped, err := r.CompareAndSwap(ctx, swaps...)
		if swapped {
			current = make([]storage.Record, len(swaps))
		}
		return current, swapped, err
	})},
	{"deletes when the TTL of the deletion ends", "the zero record deletes", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		swaps = slices.Clone(swaps)
		for i := range swaps {
			if swaps[i].New.Version == 0 && swaps[i].TTL > 0 {
				swaps[i].New = storage.Record{Version: storage.NewVersion()}
			}
		}
		return r.CompareAndSwap(ctx, swaps...)
	})},
	{"cannot swap more than 1000 keys", "many keys are like one", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		if len(swaps) > 1000 {
			return nil, false, storage.NotApplied(errors.New("too many SQL variables"))
		}
		return r.CompareAndSwap(ctx, swaps...)
	})},
	{"drops NULs when it writes", "states are opaque", writing(func(_ *reference, s *storage.Swap) {
		s.New.State = bytes.ReplaceAll(s.New.State, []byte{0}, nil)
	})},
	{"does not store an empty state", "empty is not absent", writing(func(_ *reference, s *storage.Swap) {
		if len(s.New.State) == 0 {
			s.New = storage.Record{}
		}
	})},
	{"returns current records of one buffer", "buffers are not shared", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		current, swapped, err := r.CompareAndSwap(ctx, swaps...)
		pack(current)
		return current, swapped, err
	})},
	{"keeps TTLs in milliseconds", "nothing vanishes before its TTL", writing(func(_ *reference, s *storage.Swap) {
		s.TTL = max(s.TTL.Truncate(time.Millisecond), min(s.TTL, 1))
	})},
	{"keeps long TTLs as floating point", "nothing vanishes before its TTL", writing(func(_ *reference, s *storage.Swap) {
		if s.TTL > 24*time.Hour {
			s.TTL -= s.TTL >> 10
		}
	})},
	{"returns an expired record as current", "an expired key is absent", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		current, swapped, err := r.CompareAndSwap(ctx, swaps...)
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range current {
			current[i] = copied(r.kept[swaps[i].Key].Record)
		}
		return current, swapped, err
	})},
	{"swaps an expired record from its version", "an expired key is absent", writing(func(r *reference, s *storage.Swap) {
		now, _ := r.Load(context.Background(), s.Key)
		r.mu.Lock()
		defer r.mu.Unlock()
		if now[0].Version == 0 && s.Old != 0 && r.kept[s.Key].Version == s.Old {
			s.Old = 0
		}
	})},
	{"keeps no record beyond its TTL", "a record is kept until Until", writing(func(_ *reference, s *storage.Swap) {
		s.Until = time.Time{}
	})},
	{"takes an Until after 2262 for none", "a record is kept until Until", writing(func(_ *reference, s *storage.Swap) {
		if s.Until.Year() > 2262 {
			s.Until = time.Time{}
		}
	})},
	{"adds the TTL to Until", "a record is kept until Until", writing(func(r *reference, s *storage.Swap) {
		if s.Until.After(r.world.time().Add(s.TTL)) {
			s.Until = s.Until.Add(s.TTL)
		}
	})},
	{"keeps the latest Until that a key had", "the winner sets the TTL", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		r.mu.Lock()
		swaps = slices.Clone(swaps)
		for i, s := range swaps {
			if k := r.kept[s.Key]; k.until.After(s.Until) {
				swaps[i].Until = k.until
			}
		}
		r.mu.Unlock()
		return r.CompareAndSwap(ctx, swaps...)
	})},
	{"drops a record when its Until has passed", "an Until that is past leaves the TTL", writing(func(r *reference, s *storage.Swap) {
		if s.TTL > 0 && !s.Until.IsZero() {
			s.TTL = max(1, s.Until.Sub(r.world.time()))
		}
	})},
	{"keeps what has no TTL until Until", "an Until that is past leaves the TTL", writing(func(r *reference, s *storage.Swap) {
		if left := s.Until.Sub(r.world.time()); s.TTL == 0 && left > 0 {
			s.TTL = left
		}
	})},
	{"keeps all keys of a swap for the TTL of the first", "each key has its own TTL", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		swaps = slices.Clone(swaps)
		for i := range swaps {
			swaps[i].TTL = swaps[0].TTL
		}
		return r.CompareAndSwap(ctx, swaps...)
	})},
}

// loaders have their fault in Load, alone or too.
var loaders = []saboteur{
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
	{"cannot load no keys", "nothing asked is nothing done", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, load: func(ctx context.Context, keys []string) ([]storage.Record, error) {
			if len(keys) == 0 {
				return nil, errors.New("wrong number of arguments for 'mget' command")
			}
			return r.Load(ctx, keys...)
		}}
	}},
	{"loads a repeated key into one buffer", "buffers are not shared", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, load: func(ctx context.Context, keys []string) ([]storage.Record, error) {
			records, err := r.Load(ctx, keys...)
			for i := range records {
				records[i] = records[slices.Index(keys, keys[i])]
			}
			return records, err
		}}
	}},
	{"loads all states into one buffer", "buffers are not shared", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, load: func(ctx context.Context, keys []string) ([]storage.Record, error) {
			records, err := r.Load(ctx, keys...)
			pack(records)
			return records, err
		}}
	}},
	{"cannot load more than 1000 keys", "many keys are like one", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, load: func(ctx context.Context, keys []string) ([]storage.Record, error) {
			if len(keys) > 1000 {
				return nil, errors.New("too many SQL variables")
			}
			return r.Load(ctx, keys...)
		}}
	}},
	{"loads whatever the context says", "a cancelled call writes nothing", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, load: func(_ context.Context, keys []string) ([]storage.Record, error) {
			return r.Load(context.Background(), keys...)
		}}
	}},
	{"loads a key that is too long", "what cannot be stored is refused", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, load: func(ctx context.Context, keys []string) ([]storage.Record, error) {
			records, err := r.Load(ctx, keys...)
			if errors.Is(err, storage.ErrKey) {
				return make([]storage.Record, len(keys)), nil
			}
			return records, err
		}}
	}},
	{"deletes for an hour", "the zero record deletes", func(r *reference, _ *storagetest.Harness) storage.Store {
		graves := map[string]grave{}
		var mu sync.Mutex
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			current, swapped, err := r.CompareAndSwap(ctx, swaps...)
			mu.Lock()
			defer mu.Unlock()
			for _, s := range swaps {
				if swapped && s.New.Version == 0 && s.Old != 0 {
					graves[s.Key] = grave{storage.Record{Version: s.Old}, r.world.time().Add(time.Hour)}
				}
			}
			return current, swapped, err
		}, load: func(ctx context.Context, keys []string) ([]storage.Record, error) {
			records, err := r.Load(ctx, keys...)
			mu.Lock()
			defer mu.Unlock()
			for i := range records {
				if g, ok := graves[keys[i]]; ok && records[i].Version == 0 && !r.world.time().Before(g.opens) {
					records[i] = g.Record
				}
			}
			return records, err
		}}
	}},
}

// plainOnes have their fault elsewhere.
var plainOnes = []saboteur{
	{"writes where nothing is, whatever was expected", "swap only what is there", writing(func(r *reference, s *storage.Swap) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, ok := r.kept[s.Key]; !ok { // where something has expired is for another law
			s.Old = 0
		}
	})},
	{"never expires anything", "an expired key is absent", writing(func(_ *reference, s *storage.Swap) { s.TTL = 0 })},
	{"shares its table", "two stores do not meet", func(r *reference, h *storagetest.Harness) storage.Store {
		h.Other = r
		return plain{Store: r}
	}},
}

// grave is a record that was deleted and comes back.
type grave struct {
	storage.Record
	opens time.Time
}

// pack puts the states of records into one buffer, each with room for what follows it.
func pack(records []storage.Record) {
	var buffer []byte
	for _, r := range records {
		buffer = append(buffer, r.State...)
	}
	for i, r := range records {
		if r.Version != 0 {
			records[i].State, buffer = buffer[:len(r.State)], buffer[len(r.State):]
		}
	}
}
