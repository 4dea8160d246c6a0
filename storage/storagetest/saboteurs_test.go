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

// saboteur is a faulty store that breaks one law and keeps all others.
type saboteur struct {
	fault string // what the store does wrong
	law   string // the law that the store breaks
	build builder
}

// builder returns a faulty store that uses r. It may change h.
type builder func(r *reference, h *storagetest.Harness) storage.Store

// swapFunc is a CompareAndSwap that uses r.
type swapFunc func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error)

// loadFunc is a Load that uses r.
type loadFunc func(r *reference, ctx context.Context, keys []string) ([]storage.Record, time.Time, error)

// plain has the methods of storage.Store alone. load and swap replace them.
type plain struct {
	storage.Store
	load func(ctx context.Context, keys []string) ([]storage.Record, time.Time, error)
	swap func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error)
}

func (p plain) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
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

// loading returns a builder of stores that use load.
func loading(load loadFunc) builder {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, load: func(ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
			return load(r, ctx, keys)
		}}
	}
}

// afterLoad returns a builder of stores that change the loaded records, under the lock.
func afterLoad(change func(r *reference, keys []string, records []storage.Record)) builder {
	return loading(func(r *reference, ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
		records, now, err := r.Load(ctx, keys...)
		r.mu.Lock()
		defer r.mu.Unlock()
		change(r, keys, records)
		return records, now, err
	})
}

// changingRecords returns a builder of stores that change each loaded record.
func changingRecords(change func(r storage.Record) storage.Record) builder {
	return afterLoad(func(_ *reference, _ []string, records []storage.Record) {
		for i := range records {
			records[i] = change(records[i])
		}
	})
}

// changingSwaps returns a builder of stores that change each swap.
func changingSwaps(change func(r *reference, s *storage.Swap)) builder {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			if _, err := driver.BeginSwap(ctx, swaps); err == nil {
				swaps = slices.Clone(swaps)
				for i := range swaps {
					change(r, &swaps[i])
				}
			}
			return r.CompareAndSwap(ctx, swaps...)
		}}
	}
}

// changingKeys returns a builder of stores that change keys.
func changingKeys(change func(key string) string) builder {
	return func(r *reference, h *storagetest.Harness) storage.Store {
		p := changingSwaps(func(_ *reference, s *storage.Swap) { s.Key = change(s.Key) })(r, h).(plain)
		p.load = func(ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
			keys = slices.Clone(keys)
			for i := range keys {
				keys[i] = change(keys[i])
			}
			return r.Load(ctx, keys...)
		}
		return p
	}
}

// swapping returns a builder of stores that use swap for valid swaps.
func swapping(swap swapFunc) builder {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			if _, err := driver.BeginSwap(ctx, swaps); err != nil {
				return r.CompareAndSwap(ctx, swaps...)
			}
			return swap(r, ctx, swaps)
		}}
	}
}

// afterSwap returns a builder of stores that change the records of a conflict or their own, under the lock.
func afterSwap(change func(r *reference, swaps []storage.Swap, current []storage.Record, swapped bool)) builder {
	return swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		current, swapped, err := r.CompareAndSwap(ctx, swaps...)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err == nil {
			change(r, swaps, current, swapped)
		}
		return current, swapped, err
	})
}

// yield lets other goroutines run: those of this processor, and, because it sleeps, those of busy processors.
func yield() {
	for range 100 {
		runtime.Gosched()
	}
	time.Sleep(time.Microsecond)
}

// notAtomic returns a builder of stores that compare, yield and then write.
func notAtomic(when func(storage.Swap) bool) builder {
	return swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		isDropped := func(s storage.Swap) bool { return r.dropped[s.Key] }
		if len(swaps) == 0 || !when(swaps[0]) || slices.ContainsFunc(swaps, isDropped) {
			return r.CompareAndSwap(ctx, swaps...)
		}
		keys := make([]string, len(swaps))
		for i := range swaps {
			keys[i] = swaps[i].Key
		}
		current, _, err := r.Load(ctx, keys...)
		if err != nil || slices.ContainsFunc(swaps, func(s storage.Swap) bool { return current[slices.Index(keys, s.Key)].Version != s.Old }) {
			return current, false, err
		}
		yield()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range swaps {
			r.put(r.clock.time(), s)
		}
		return nil, true, nil
	})
}

var saboteurs = slices.Concat(swapSaboteurs, loadSaboteurs, otherSaboteurs, purgeSaboteurs, updateSaboteurs,
	transactSaboteurs, serverSaboteurs, randomBatchSaboteurs)

const expiresNothing = "never expires a record"

// swapSaboteurs have a faulty CompareAndSwap.
var swapSaboteurs = []saboteur{
	{"changes the TTL on a conflict", "a refused swap changes nothing", afterSwap(func(r *reference, swaps []storage.Swap, _ []storage.Record, swapped bool) {
		for _, s := range swaps {
			if k, ok := r.records[s.Key]; ok && !swapped {
				k.expires = r.clock.time().Add(s.TTL)
				if s.TTL == 0 {
					k.expires = time.Time{}
				}
				r.records[s.Key] = k
			}
		}
	})},
	{"ignores that the write of a swap was dropped", "a swap that the database drops is an error", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		current, swapped, err := r.CompareAndSwap(ctx, swaps...)
		if errors.Is(err, errDropped) {
			return nil, true, nil
		}
		return current, swapped, err
	})},
	{"compares only the last key of three or more", "all or nothing", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		if len(swaps) < 3 { // with two keys it would also lose increments
			return r.CompareAndSwap(ctx, swaps...)
		}
		if current, swapped, err := r.CompareAndSwap(ctx, swaps[len(swaps)-1]); !swapped || err != nil {
			all, _, _ := r.Load(ctx, swaps[0].Key)
			for _, s := range swaps[1 : len(swaps)-1] {
				one, _, _ := r.Load(ctx, s.Key)
				all = append(all, one...)
			}
			return append(all, current...), false, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range swaps[:len(swaps)-1] {
			r.put(r.clock.time(), s)
		}
		return nil, true, nil
	})},
	{"applies a part of a refused swap", "all or nothing", afterSwap(func(r *reference, swaps []storage.Swap, current []storage.Record, swapped bool) {
		for i, s := range swaps {
			if swapped || current[i].Version != s.Old {
				break
			}
			r.put(r.clock.time(), s)
		}
	})},
	{"returns only the keys that were stale", "a conflict returns the stored records", afterSwap(func(_ *reference, swaps []storage.Swap, current []storage.Record, _ bool) {
		for i := range current {
			if current[i].Version == swaps[i].Old {
				current[i] = storage.Record{}
			}
		}
	})},
	{"does not delete", "the zero record deletes", changingSwaps(func(_ *reference, s *storage.Swap) {
		if s.New.Version == 0 {
			s.New = storage.Record{Version: storage.NewVersion(), State: []byte("deleted")}
		}
	})},
	{"ends keys at a NUL", "keys are opaque", changingKeys(func(key string) string {
		if before, _, cut := strings.Cut(key, "\x00"); cut && !strings.HasPrefix(key, "k\x03law") {
			return before
		}
		return key
	})},
	{"ignores the case of keys", "keys are opaque", changingKeys(strings.ToLower)},
	{"keeps versions as floating point", "versions are opaque", changingSwaps(func(r *reference, s *storage.Swap) {
		if now, _, _ := r.Load(context.Background(), s.Key); s.Old != 0 && float64(now[0].Version) == float64(s.Old) {
			s.Old = now[0].Version
		}
	})},
	{"keeps the caller's state", "buffers are not shared", afterSwap(func(r *reference, swaps []storage.Swap, _ []storage.Record, swapped bool) {
		for _, s := range swaps {
			if k, ok := r.records[s.Key]; ok && swapped && k.Version == s.New.Version {
				k.State = s.New.State
				r.records[s.Key] = k
			}
		}
	})},
	{"returns its own memory on a conflict", "buffers are not shared", afterSwap(func(r *reference, swaps []storage.Swap, current []storage.Record, _ bool) {
		for i := range current {
			if current[i].Version != 0 {
				current[i].State = r.records[swaps[i].Key].State
			}
		}
	})},
	{"applies the first of two swaps of a key", "invalid swaps are refused", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			if _, err := driver.BeginSwap(ctx, swaps); errors.Is(err, storage.ErrDuplicateKey) {
				swaps = slices.Clone(swaps)
				for i := 0; i < len(swaps); i++ {
					swaps = append(swaps[:i+1], slices.DeleteFunc(slices.Clone(swaps[i+1:]), func(s storage.Swap) bool { return s.Key == swaps[i].Key })...)
				}
			}
			return r.CompareAndSwap(ctx, swaps...)
		}}
	}},
	{"cuts long keys", "invalid swaps are refused", func(r *reference, _ *storagetest.Harness) storage.Store {
		cut := func(key string) string { return key[:min(len(key), storage.MaxKey)] }
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			swaps = slices.Clone(swaps)
			for i := range swaps {
				swaps[i].Key = cut(swaps[i].Key)
			}
			return r.CompareAndSwap(ctx, swaps...)
		}, load: func(ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
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
	{"does not wrap ErrNotApplied after a cancellation", "a cancelled call writes nothing", func(r *reference, _ *storagetest.Harness) storage.Store {
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			if err := ctx.Err(); err != nil {
				return nil, false, err
			}
			return r.CompareAndSwap(ctx, swaps...)
		}}
	}},
	{"keeps TTLs in seconds", "no record expires before its TTL", changingSwaps(func(_ *reference, s *storage.Swap) {
		s.TTL = max(s.TTL.Truncate(time.Second), min(s.TTL, 1))
	})},
	{"overflows on a long TTL", "no record expires before its TTL", changingSwaps(func(r *reference, s *storage.Swap) {
		if now := r.clock.time().UnixNano(); s.TTL > 0 && now+int64(s.TTL) < now {
			s.TTL = 1
		}
	})},
	{"gives every record a TTL", "no record expires before its TTL", changingSwaps(func(_ *reference, s *storage.Swap) {
		if s.TTL == 0 {
			s.TTL = 1000 * time.Hour
		}
	})},
	{"keeps the TTL of the first write", "a swap replaces the TTL", changingSwaps(func(r *reference, s *storage.Swap) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if k := r.records[s.Key]; k.Version != 0 && k.Version == s.Old {
			s.TTL = 0
			if !k.expires.IsZero() {
				s.TTL = k.expires.Sub(r.clock.time())
			}
		}
	})},
	{"checks for absence before it creates", "no increment is lost", notAtomic(func(s storage.Swap) bool { return s.Old == 0 && s.New.Version != 0 })},
	{"checks for absence before it creates one key", "no increment is lost", func(r *reference, h *storagetest.Harness) storage.Store {
		racy := notAtomic(func(s storage.Swap) bool { return s.Old == 0 && s.New.Version != 0 })(r, h)
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			if len(swaps) == 1 {
				return racy.CompareAndSwap(ctx, swaps...)
			}
			return r.CompareAndSwap(ctx, swaps...)
		}}
	}},
	{"reads before it writes", "no increment is lost", notAtomic(func(s storage.Swap) bool { return s.Old != 0 && s.New.Version != 0 })},
	{"locks keys in the order of the call", "swaps in opposite orders do not deadlock", func(r *reference, _ *storagetest.Harness) storage.Store {
		var locks sync.Map
		return plain{Store: r, swap: func(ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
			if _, err := driver.BeginSwap(ctx, swaps); err != nil {
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
				yield()
			}
			return r.CompareAndSwap(ctx, swaps...)
		}}
	}},
	{"keeps the version if the state is the same", "a swap needs the stored version", changingSwaps(func(r *reference, s *storage.Swap) {
		if now, _, _ := r.Load(context.Background(), s.Key); now[0].Version != 0 && bytes.Equal(now[0].State, s.New.State) {
			s.New.Version = now[0].Version
		}
	})},
	{"returns what it replaced", "a conflict returns the stored records", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		current, swapped, err := r.CompareAndSwap(ctx, swaps...)
		if swapped {
			current = make([]storage.Record, len(swaps))
		}
		return current, swapped, err
	})},
	{"deletes when the TTL of the deletion ends", "the zero record deletes", changingSwaps(func(_ *reference, s *storage.Swap) {
		if s.New.Version == 0 && s.TTL > 0 {
			s.New = storage.Record{Version: storage.NewVersion()}
		}
	})},
	{"cannot swap more than 1000 keys", "a call may have many keys", swapping(func(r *reference, ctx context.Context, swaps []storage.Swap) ([]storage.Record, bool, error) {
		if len(swaps) > 1000 {
			return nil, false, storage.NotApplied(errors.New("too many SQL variables"))
		}
		return r.CompareAndSwap(ctx, swaps...)
	})},
	{"does not store an empty state", "an empty state is not absent", changingSwaps(func(_ *reference, s *storage.Swap) {
		if len(s.New.State) == 0 {
			s.New = storage.Record{}
		}
	})},
	{"returns current records of one buffer", "buffers are not shared", afterSwap(func(_ *reference, _ []storage.Swap, current []storage.Record, _ bool) {
		pack(current)
	})},
	{"keeps TTLs in milliseconds", "no record expires before its TTL", changingSwaps(func(_ *reference, s *storage.Swap) {
		s.TTL = max(s.TTL.Truncate(time.Millisecond), min(s.TTL, 1))
	})},
	{"keeps long TTLs as floating point", "no record expires before its TTL", changingSwaps(func(_ *reference, s *storage.Swap) {
		if s.TTL > 24*time.Hour {
			s.TTL -= s.TTL >> 10
		}
	})},
	{"returns an expired record as current", "an expired key is absent", afterSwap(func(r *reference, swaps []storage.Swap, current []storage.Record, _ bool) {
		for i := range current {
			current[i] = copied(r.records[swaps[i].Key].Record)
		}
	})},
	{"swaps an expired record from its version", "an expired key is absent", changingSwaps(func(r *reference, s *storage.Swap) {
		now, _, _ := r.Load(context.Background(), s.Key)
		r.mu.Lock()
		defer r.mu.Unlock()
		if now[0].Version == 0 && s.Old != 0 && r.records[s.Key].Version == s.Old {
			s.Old = 0
		}
	})},
	{"ignores Until", "a record is kept until Until", changingSwaps(func(_ *reference, s *storage.Swap) {
		s.Until = time.Time{}
	})},
	{"ignores an Until after 2262", "a record is kept until Until", changingSwaps(func(_ *reference, s *storage.Swap) {
		if s.Until.Year() > 2262 {
			s.Until = time.Time{}
		}
	})},
	{"adds the TTL to Until", "a record is kept until Until", changingSwaps(func(r *reference, s *storage.Swap) {
		if s.Until.After(r.clock.time().Add(s.TTL)) {
			s.Until = s.Until.Add(s.TTL)
		}
	})},
	{"keeps the latest Until that a key had", "a swap replaces the TTL", changingSwaps(func(r *reference, s *storage.Swap) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if k := r.records[s.Key]; k.until.After(s.Until) {
			s.Until = k.until
		}
	})},
	{"expires a record at an early Until", "an early Until does not change the TTL", changingSwaps(func(r *reference, s *storage.Swap) {
		if s.TTL > 0 && !s.Until.IsZero() {
			s.TTL = max(1, s.Until.Sub(r.clock.time()))
		}
	})},
	{"expires a record without a TTL at Until", "an early Until does not change the TTL", changingSwaps(func(r *reference, s *storage.Swap) {
		if left := s.Until.Sub(r.clock.time()); s.TTL == 0 && left > 0 {
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

// loadSaboteurs have a faulty Load.
var loadSaboteurs = []saboteur{
	{"loads records without TTLs", "Load returns what is left of the TTL", changingRecords(func(r storage.Record) storage.Record {
		r.TTL = 0
		return r
	})},
	{"loads the TTL that a record was written with", "Load returns what is left of the TTL", changingRecords(func(r storage.Record) storage.Record {
		if r.TTL > 0 {
			r.TTL = r.TTL.Round(time.Hour)
		}
		return r
	})},
	{"an absent key has a state", "Load keeps the order of keys", changingRecords(func(r storage.Record) storage.Record {
		if r.Version == 0 {
			r.State = []byte{}
		}
		return r
	})},
	{"sorts the keys it loads", "Load keeps the order of keys", loading(func(r *reference, ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
		return r.Load(ctx, slices.Sorted(slices.Values(keys))...)
	})},
	{"loads a repeated key once", "Load keeps the order of keys", afterLoad(func(_ *reference, keys []string, records []storage.Record) {
		for i := range records {
			if slices.Contains(keys[:i], keys[i]) {
				records[i] = storage.Record{}
			}
		}
	})},
	{"drops NULs", "states are opaque", changingRecords(func(r storage.Record) storage.Record {
		r.State = bytes.ReplaceAll(r.State, []byte{0}, nil)
		return r
	})},
	{"replaces invalid UTF-8", "states are opaque", changingRecords(func(r storage.Record) storage.Record {
		if r.State != nil {
			r.State = bytes.ToValidUTF8(r.State, []byte("\ufffd"))
		}
		return r
	})},
	{"loads an empty state as absent", "an empty state is not absent", changingRecords(func(r storage.Record) storage.Record {
		if len(r.State) == 0 {
			return storage.Record{}
		}
		return r
	})},
	{"returns its own memory", "buffers are not shared", afterLoad(func(r *reference, keys []string, records []storage.Record) {
		for i := range records {
			if records[i].Version != 0 {
				records[i].State = r.records[keys[i]].State
			}
		}
	})},
	{"returns no time", "Load returns the time", loading(func(r *reference, ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
		records, _, err := r.Load(ctx, keys...)
		return records, time.Time{}, err
	})},
	{"returns the time of a clock that is ahead", "Load returns the time", loading(func(r *reference, ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
		records, now, err := r.Load(ctx, keys...)
		return records, now.Add(time.Second), err
	})},
	{"cannot load no keys", "empty calls succeed", loading(func(r *reference, ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
		if len(keys) == 0 {
			return nil, time.Time{}, errors.New("wrong number of arguments for 'mget' command")
		}
		return r.Load(ctx, keys...)
	})},
	{"loads a repeated key into one buffer", "buffers are not shared", afterLoad(func(_ *reference, keys []string, records []storage.Record) {
		for i := range records {
			records[i] = records[slices.Index(keys, keys[i])]
		}
	})},
	{"loads all states into one buffer", "buffers are not shared", afterLoad(func(_ *reference, _ []string, records []storage.Record) {
		pack(records)
	})},
	{"cannot load more than 1000 keys", "a call may have many keys", loading(func(r *reference, ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
		if len(keys) > 1000 {
			return nil, time.Time{}, errors.New("too many SQL variables")
		}
		return r.Load(ctx, keys...)
	})},
	{"loads with an ended context", "a cancelled call writes nothing", loading(func(r *reference, _ context.Context, keys []string) ([]storage.Record, time.Time, error) {
		return r.Load(context.Background(), keys...)
	})},
	{"loads a key that is too long", "invalid swaps are refused", loading(func(r *reference, ctx context.Context, keys []string) ([]storage.Record, time.Time, error) {
		records, now, err := r.Load(ctx, keys...)
		if errors.Is(err, storage.ErrKey) {
			return make([]storage.Record, len(keys)), now, nil
		}
		return records, now, err
	})},
}

// otherSaboteurs have other faults.
var otherSaboteurs = []saboteur{
	{"writes to an absent key whatever Old is", "a swap needs the stored version", changingSwaps(func(r *reference, s *storage.Swap) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, ok := r.records[s.Key]; !ok { // expired records belong to another law
			s.Old = 0
		}
	})},
	{expiresNothing, "an expired key is absent", changingSwaps(func(_ *reference, s *storage.Swap) { s.TTL = 0 })},
	{"shares its table", "two stores share no key", func(r *reference, h *storagetest.Harness) storage.Store {
		h.Other = r
		return plain{Store: r}
	}},
}

// pack moves the states of records into one buffer, so that the capacity of each state reaches into the next one.
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
