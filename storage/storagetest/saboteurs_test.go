package storagetest

import (
	"bytes"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

// saboteurs has for each law stores that break it, by their fault.
var saboteurs = map[string]map[string]builder{
	"Load keeps the order of keys": {
		"sorts the keys": loading(func(s *correct, ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
			return s.Load(ctx, slices.Sorted(slices.Values(keys))...)
		}),
		"cannot load no keys": loading(func(s *correct, ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
			if len(keys) == 0 {
				return nil, time.Time{}, errFault
			}
			return s.Load(ctx, keys...)
		}),
	},
	"two stores share no key": {"shares its table": func(s *faulty, h *Harness) { h.Other = s }},
	"a swap needs the stored version": {
		"writes to an absent key whatever Old is": changingSwaps(func(s *correct, swap *storage.Swap) {
			if absent(s.get(swap.Key)) {
				swap.Old = 0
			}
		}),
		"keeps the version if the state is the same": changingSwaps(func(s *correct, swap *storage.Swap) {
			if now := s.get(swap.Key); !absent(now) && bytes.Equal(now.State, swap.New.State) {
				swap.New.Version = now.Version
			}
		}),
	},
	"all or nothing": {
		"applies a part of a refused swap": afterSwap(func(s *correct, swaps []storage.Swap, current []storage.Record) {
			for i, swap := range swaps[:len(current)] {
				if current[i].Version == swap.Old {
					s.force(swap)
				}
			}
		}),
		"changes the TTL on a conflict": afterSwap(func(s *correct, swaps []storage.Swap, current []storage.Record) {
			for i, found := range current {
				if !absent(found) {
					s.force(storage.Swap{Key: swaps[i].Key, New: found, TTL: swaps[i].TTL})
				}
			}
		}),
	},
	"a conflict returns the stored records": {"returns only the keys that were stale": afterSwap(func(_ *correct, swaps []storage.Swap, current []storage.Record) {
		for i := range current {
			if current[i].Version == swaps[i].Old {
				current[i] = storage.Record{}
			}
		}
	})},
	"the zero record deletes": {"deletes when the TTL of the deletion ends": changingSwaps(func(_ *correct, swap *storage.Swap) {
		if swap.New.Version == 0 && swap.TTL > 0 {
			swap.New = storage.Record{Version: storage.NewVersion()}
		}
	})},
	"a call may have many keys": {"cannot swap more than 1000 keys": swapping(func(s *correct, ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
		if len(swaps) > 1000 {
			return nil, false, errFault
		}
		return s.CompareAndSwap(ctx, swaps...)
	})},
	"invalid swaps are refused": {"cuts long keys": changingKeys(func(key string) string { return key[:min(len(key), storage.MaxKey)] })},
	"no increment is lost": {
		"checks for absence before it creates": notAtomic(func(swap storage.Swap) bool { return swap.Old == 0 }),
		"reads before it writes":               notAtomic(func(swap storage.Swap) bool { return swap.Old != 0 }),
		"unlocks while it decides": transacting(func(s *correct, _ context.Context, _ func() time.Time, updates ...*driver.Update) error {
			items := updates[0].Items
			for i := range items {
				items[i].Found = s.get(items[i].Key.String())
			}
			updates[0].Decide(s.Now())
			yield()
			for _, item := range items {
				s.force(storage.Swap{Key: item.Key.String(), New: storage.Record{Version: storage.NewVersion(), State: item.Next.State}})
			}
			return nil
		}),
	},
	"swaps in opposite orders do not deadlock": {"locks keys in the order of the call": func(s *faulty, _ *Harness) {
		var locks sync.Map
		s.swap = func(s *correct, ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
			for _, swap := range swaps {
				lock, _ := locks.LoadOrStore(swap.Key, make(chan struct{}, 1))
				select {
				case lock.(chan struct{}) <- struct{}{}:
					defer func() { <-lock.(chan struct{}) }()
				case <-ctx.Done():
					return nil, false, storage.NotApplied(ctx.Err())
				}
				yield()
			}
			return s.CompareAndSwap(ctx, swaps...)
		}
	}},

	"states are opaque": {
		"ends states at a NUL": changingSwaps(func(_ *correct, swap *storage.Swap) {
			swap.New.State, _, _ = bytes.Cut(swap.New.State, []byte{0})
		}),
		"does not store an empty state": changingSwaps(func(_ *correct, swap *storage.Swap) {
			if len(swap.New.State) == 0 {
				swap.New = storage.Record{}
			}
		}),
	},
	"keys are opaque": {"ignores the case of keys": changingKeys(strings.ToLower)},
	"versions are opaque": {"keeps versions as floating point": changingSwaps(func(s *correct, swap *storage.Swap) {
		if now := s.get(swap.Key); swap.Old != 0 && float64(now.Version) == float64(swap.Old) {
			swap.Old = now.Version
		}
	})},
	"a call after its context has ended changes nothing": {
		"swaps": swapping(func(s *correct, ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
			return s.CompareAndSwap(context.WithoutCancel(ctx), swaps...)
		}),
		"transacts": transacting(func(s *correct, ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
			return s.Transact(context.WithoutCancel(ctx), clock, updates...)
		}),
		"runs batches": running(func(s *correct, ctx context.Context, b *driver.Batch) { s.runBatch(context.WithoutCancel(ctx), b) }),
		"purges": purging(func(s *correct, ctx context.Context, max int) (int, error) {
			return s.Purge(context.WithoutCancel(ctx), max)
		}),
	},
	"a write that the database drops is an error": {
		"swaps":        unaware("CompareAndSwap"),
		"transacts":    unaware("Transact"),
		"runs batches": unaware("Run"),
	},
	"memory is not shared": {
		"loads its own memory": func(s *faulty, h *Harness) {
			share := sharing()
			afterLoad(func(_ []string, records []storage.Record) { share(records) })(s, h)
		},
		"returns its own memory from a batch": func(s *faulty, _ *Harness) {
			share := sharing()
			s.run = func(s *correct, ctx context.Context, b *driver.Batch) {
				s.runBatch(ctx, b)
				share(b.Found)
			}
		},
		"keeps the new state": func(s *faulty, h *Harness) {
			kept := map[string][]byte{}
			deciding(func(u *driver.Update, decide func() bool) bool {
				ok := decide()
				for i := range u.Items {
					kept[u.Items[i].Key.String()] = u.Items[i].Next.State
				}
				return ok
			})(s, h)
			afterLoad(func(keys []string, records []storage.Record) {
				for i, key := range keys {
					records[i].State = kept[key]
				}
			})(s, h)
		},
		"loads a repeated key into one buffer": afterLoad(func(keys []string, records []storage.Record) {
			for i := range records {
				records[i] = records[slices.Index(keys, keys[i])]
			}
		}),
	},

	"no record expires before its TTL": {
		"keeps TTLs in milliseconds": changingSwaps(func(_ *correct, swap *storage.Swap) {
			swap.TTL = max(swap.TTL.Truncate(time.Millisecond), min(swap.TTL, 1))
		}),
		"overflows on a long TTL": changingSwaps(func(s *correct, swap *storage.Swap) {
			if swap.TTL > math.MaxInt64-time.Duration(s.Now().UnixNano()) {
				swap.TTL = 1
			}
		}),
		"gives every record a TTL": changingSwaps(func(_ *correct, swap *storage.Swap) {
			if swap.TTL == 0 {
				swap.TTL = 1000 * time.Hour
			}
		}),
	},
	"Load returns what is left of the TTL": {"returns no TTL": afterLoad(func(_ []string, records []storage.Record) { clearTTLs(records) })},
	"Load returns the time": {"returns the time of a clock that is ahead": loading(func(s *correct, ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
		records, now, err := s.Load(ctx, keys...)
		return records, now.Add(time.Second), err
	})},
	"an expired key is absent": {"never expires a record": changingSwaps(func(_ *correct, swap *storage.Swap) { swap.TTL = 0 })},
	"a swap sets the TTL of each key": {
		"keeps the TTL of the first write": changingSwaps(func(s *correct, swap *storage.Swap) {
			if now := s.get(swap.Key); !absent(now) {
				swap.TTL = now.TTL
			}
		}),
		"keeps all keys of a swap for the TTL of the first": swapping(func(s *correct, ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
			swaps = slices.Clone(swaps)
			for i := range swaps {
				swaps[i].TTL = swaps[0].TTL
			}
			return s.CompareAndSwap(ctx, swaps...)
		}),
	},
	"a purge removes only expired records": {
		"purges nothing":    purging(func(*correct, context.Context, int) (int, error) { return 0, nil }),
		"purges beyond max": purging(func(s *correct, ctx context.Context, max int) (int, error) { return s.Purge(ctx, 1000*max) }),
	},
	"a listing has all keys with the prefix": {
		"reads the prefix as a pattern": listing(func(s *correct, prefix, cursor string, max int) ([]string, string) {
			if before, _, ok := strings.Cut(prefix, "*"); ok {
				prefix = before
			}
			return s.page(prefix, cursor, max)
		}),
		"ignores the prefix": listing(func(s *correct, _, cursor string, max int) ([]string, string) { return s.page("", cursor, max) }),
		"ends after a short page": listing(func(s *correct, prefix, cursor string, max int) ([]string, string) {
			keys, next := s.page(prefix, cursor, max)
			if len(keys) > 0 && strings.HasSuffix(keys[len(keys)-1], "1") {
				next = ""
			}
			return keys, next
		}),
		"lists expired keys": listing(func(s *correct, prefix, cursor string, max int) ([]string, string) {
			keys, next := s.page(prefix, cursor, max)
			if cursor == "" && strings.HasPrefix("a expired", prefix) {
				keys = append(keys, "a expired")
			}
			return keys, next
		}),
		"cuts keys at a NUL": listing(func(s *correct, prefix, cursor string, max int) ([]string, string) {
			keys, next := s.page(prefix, cursor, max)
			for i := range keys {
				keys[i], _, _ = strings.Cut(keys[i], "\x00")
			}
			return keys, next
		}),
	},
	"a listing has the keys that stay": {"counts the keys of earlier pages": listing(func(s *correct, prefix, cursor string, max int) ([]string, string) {
		all, _ := s.page(prefix, "", math.MaxInt)
		skip, _ := strconv.Atoi(cursor)
		page := all[min(skip, len(all)):]
		if len(page) <= max {
			return page, ""
		}
		return page[:max], strconv.Itoa(skip + max)
	})},
	"a listing has an end": {
		"ignores the context": func(s *faulty, _ *Harness) {
			s.beginList = func(_ context.Context, max int) error { return driver.BeginList(context.Background(), max) }
		},
		"lists nothing for a max of 0": func(s *faulty, _ *Harness) {
			s.beginList = func(ctx context.Context, max int) error {
				if max == 0 {
					return nil
				}
				return driver.BeginList(ctx, max)
			}
			s.list = func(*correct, string, string, int) ([]string, string) { return nil, "" }
		},
	},
	"an update finds the stored records": {"finds no TTLs": deciding(func(u *driver.Update, decide func() bool) bool {
		for i := range u.Items {
			u.Items[i].Found.TTL = 0
		}
		return decide()
	})},
	"an update applies its changes": {"writes a record with the verb Keep": deciding(func(u *driver.Update, decide func() bool) bool {
		ok := decide()
		for i := range u.Items {
			if item := &u.Items[i]; item.Next.Verb == driver.Keep && !absent(item.Found) && len(item.Next.State) > 0 {
				item.Next.Verb = driver.Put
			}
		}
		return ok
	})},
	"an update sets the TTL": {
		"keeps the TTL of a replaced record": deciding(func(u *driver.Update, decide func() bool) bool {
			ok := decide()
			for i := range u.Items {
				if item := &u.Items[i]; !absent(item.Found) {
					item.Next.TTL = item.Found.TTL
				}
			}
			return ok
		}),
		"counts a TTL only by its own clock": transacting(func(s *correct, ctx context.Context, _ func() time.Time, updates ...*driver.Update) error {
			return s.Transact(ctx, nil, updates...)
		}),
	},
	"an update without success changes nothing": {
		"applies the changes of a refused update": deciding(func(_ *driver.Update, decide func() bool) bool {
			decide()
			return true
		}),
		"stays locked after a panic": transacting(func(s *correct, ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
			s.running.Lock()
			err := s.Transact(ctx, clock, updates...)
			s.running.Unlock()
			return err
		}),
	},
	"an update reads the changes of earlier updates": {"reads for each update the state before the transaction": func(s *faulty, h *Harness) {
		before := map[string]storage.Record{}
		deciding(func(u *driver.Update, decide func() bool) bool {
			for i := range u.Items {
				item := &u.Items[i]
				if found, ok := before[item.Key.String()]; ok {
					item.Found = found
				}
				before[item.Key.String()] = item.Found
			}
			return decide()
		})(s, h)
	}},
	"a transaction has one time": {"reads the clock for each update": transacting(func(s *correct, ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
		for _, u := range updates {
			if err := s.Transact(ctx, clock, u); err != nil {
				return err
			}
		}
		return nil
	})},
	"the clock is read in the transaction": {"reads the clock before it locks": transacting(func(s *correct, ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
		if clock != nil {
			now := clock()
			yield()
			clock = func() time.Time { return now }
		}
		return s.Transact(ctx, clock, updates...)
	})},
	"a key that cannot be read fails alone": {"treats the key as absent": func(_ *faulty, h *Harness) {
		h.Spoil = func(string) {}
	}},
	"each batch succeeds or fails alone": {"stops at the first batch that fails": func(s *faulty, _ *Harness) {
		failed := false
		s.run = func(s *correct, ctx context.Context, b *driver.Batch) {
			if !failed {
				s.runBatch(ctx, b)
			}
			failed = failed || b.Err != nil
		}
	}},
	"concurrent batches do not exceed a limit": {"reads before it writes": running(func(s *correct, ctx context.Context, b *driver.Batch) {
		found, now, err := s.Load(ctx, b.Keys...)
		if b.Err = err; err == nil {
			swaps := swapsOf(b, found, now)
			yield()
			s.force(swaps...)
		}
	})},
	"a batch may have many keys": {"takes no more than 999 keys": running(func(s *correct, ctx context.Context, b *driver.Batch) {
		if s.runBatch(ctx, b); len(b.Keys) > 999 {
			b.Err = errFault
		}
	})},
	"Runs reports which programs the server can run": {"reports that it runs any program": func(s *faulty, _ *Harness) { s.runsAll = true }},
	"a batch sets TTLs": {
		"keeps records for ever":                          changingWrites(func(_ *driver.Batch, swap *storage.Swap) { swap.TTL = 0 }),
		"counts the TTL of a batch only by its own clock": changingWrites(func(b *driver.Batch, swap *storage.Swap) { swap.TTL = min(swap.TTL, time.Hour+b.Margin) }),
		"adds no margin": changingWrites(func(b *driver.Batch, swap *storage.Swap) {
			if swap.TTL > 0 {
				swap.TTL -= b.Margin
			}
		}),
	},
	"a denial writes nothing": {
		"returns no TTLs": running(func(s *correct, ctx context.Context, b *driver.Batch) {
			s.runBatch(ctx, b)
			clearTTLs(b.Found)
		}),
		"writes its version at a denial": running(func(s *correct, ctx context.Context, b *driver.Batch) {
			s.runBatch(ctx, b)
			for i, found := range b.Found {
				if now := s.get(b.Keys[i]); !absent(now) && now.Version == found.Version {
					s.force(storage.Swap{Key: b.Keys[i], New: storage.Record{Version: b.Version, State: now.State}, TTL: now.TTL})
				}
			}
		}),
	},
	"any batch is decided as in Go": {
		"rounds the time of a batch": changingTime(func(_ *correct, now time.Time) time.Time { return now.Truncate(time.Microsecond) }),
		"decides by a clock that is an hour ahead": changingTime(func(s *correct, now time.Time) time.Time {
			if now.IsZero() {
				return s.Now().Add(time.Hour)
			}
			return now
		}),
		"decides equal requests as one": changingUses(func(r *driver.Request, _ *driver.Use) { r.Times = 1 }),
		"takes a part of a denied request": changingUses(func(r *driver.Request, use *driver.Use) {
			use.Shadow = use.Shadow || len(r.Uses) > 1
		}),
		"denies by shadow uses": changingUses(func(_ *driver.Request, use *driver.Use) { use.Shadow = false }),
		"denies a charge": changingUses(func(_ *driver.Request, use *driver.Use) {
			if use.Op == driver.Charge {
				use.Op = driver.Allow
			}
		}),
		"refunds one unit too many": changingUses(func(_ *driver.Request, use *driver.Use) {
			if use.Op == driver.Refund {
				use.Cost++
			}
		}),
	},
}

var errFault = storage.NotApplied(errors.New("a fault"))

// builder makes a store faulty. It may change h.
type builder func(s *faulty, h *Harness)

// correct is a store in memory that also runs batches and lists keys.
type correct struct {
	*memory.Store
	running sync.Mutex // by one batch
	written sync.Map   // has all keys that were ever written by a swap, for list
}

// faulty is a store whose methods call these functions.
type faulty struct {
	correct
	load      func(s *correct, ctx context.Context, keys ...string) ([]storage.Record, time.Time, error)
	swap      func(s *correct, ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error)
	purge     func(s *correct, ctx context.Context, max int) (int, error)
	beginList func(ctx context.Context, max int) error
	list      func(s *correct, prefix, cursor string, max int) (keys []string, next string)
	transact  func(s *correct, ctx context.Context, clock func() time.Time, updates ...*driver.Update) error
	run       func(s *correct, ctx context.Context, b *driver.Batch)
	runsAll   bool
	dropped   map[string]bool // keys that may not be written
	unaware   string          // the method that writes them
}

// newFaulty returns a store without a fault.
func newFaulty(clock func() time.Time) *faulty {
	return &faulty{
		correct: correct{Store: &memory.Store{Clock: clock}}, dropped: map[string]bool{},
		load: (*correct).Load, swap: (*correct).CompareAndSwap, purge: (*correct).Purge, beginList: driver.BeginList, list: (*correct).page,
		transact: (*correct).Transact, run: (*correct).runBatch,
	}
}

// drops reports whether the database drops the write of a key.
func (s *faulty) drops(method string, keys ...string) bool {
	return method != s.unaware && slices.ContainsFunc(keys, func(key string) bool { return s.dropped[key] })
}

// unaware makes a store of which a method does not notice that the database drops a write.
func unaware(method string) builder {
	return func(s *faulty, _ *Harness) { s.unaware = method }
}

func (s *faulty) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	return s.load(&s.correct, ctx, keys...)
}

func (s *faulty) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if s.drops("CompareAndSwap", keysOf(swaps)...) {
		return nil, false, errFault
	}
	for i := range swaps {
		s.written.Store(swaps[i].Key, true)
	}
	return s.swap(&s.correct, ctx, swaps...)
}

func (s *faulty) List(ctx context.Context, prefix, cursor string, max int) (keys []string, next string, err error) {
	if err := s.beginList(ctx, max); err != nil {
		return nil, "", err
	}
	keys, next = s.list(&s.correct, prefix, cursor, max)
	return keys, next, nil
}

// page returns a page of List.
func (s *correct) page(prefix, cursor string, max int) (keys []string, next string) {
	first, last := driver.ListRange(prefix, cursor)
	s.written.Range(func(k, _ any) bool {
		if key := k.(string); first <= key && key <= last && !absent(s.get(key)) {
			keys = append(keys, key)
		}
		return true
	})
	slices.Sort(keys)
	if len(keys) > max {
		keys, next = keys[:max], driver.CursorAfter(keys[max-1])
	}
	return keys, next
}

func (s *faulty) Purge(ctx context.Context, max int) (int, error) {
	return s.purge(&s.correct, ctx, max)
}

func (s *faulty) Transact(ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
	if s.drops("Transact", updates[0].Items[0].Key.String()) {
		return errFault
	}
	return s.transact(&s.correct, ctx, clock, updates...)
}

func (s *faulty) Place(...string) (server, slot string, err error) { return "", "", nil }

func (s *faulty) Runs(p *algo.Program) bool {
	for i := range p.Parts {
		if !s.Runs(&p.Parts[i]) {
			return false
		}
	}
	return s.runsAll || len(p.Parts) > 0 || p.Lua != ""
}

func (s *faulty) Run(ctx context.Context, batches ...*driver.Batch) {
	for _, b := range batches {
		if s.drops("Run", b.Keys...) {
			b.Err = errFault
		} else {
			s.run(&s.correct, ctx, b)
		}
	}
}

func (s *correct) runBatch(ctx context.Context, b *driver.Batch) {
	if b.Err = driver.BeginBatch(ctx, b); b.Err != nil {
		return
	}
	s.running.Lock()
	defer s.running.Unlock()
	found, now, _ := s.Load(ctx, b.Keys...)
	s.force(swapsOf(b, found, now)...)
}

// swapsOf decides a batch and returns its writes.
func swapsOf(b *driver.Batch, found []storage.Record, now time.Time) (swaps []storage.Swap) {
	for i, c := range decide(b, found, now) {
		swap := storage.Swap{Key: b.Keys[i]}
		switch c.Verb {
		case driver.Keep:
			continue
		case driver.Put:
			swap.New = storage.Record{Version: b.Version, State: c.State}
			swap.TTL = driver.KeepFor(c.TTL+b.Margin, b.Now, now)
		}
		swaps = append(swaps, swap)
	}
	return swaps
}

// get loads a record.
func (s *correct) get(key string) storage.Record {
	records, _, err := s.Load(context.Background(), key)
	if err != nil {
		return storage.Record{}
	}
	return records[0]
}

// force applies swaps whatever their Old is.
func (s *correct) force(swaps ...storage.Swap) {
	for _, swap := range swaps {
		for swapped := false; !swapped; {
			swap.Old = s.get(swap.Key).Version
			_, swapped, _ = s.CompareAndSwap(context.Background(), swap)
		}
	}
}

func loading(load func(s *correct, ctx context.Context, keys ...string) ([]storage.Record, time.Time, error)) builder {
	return func(s *faulty, _ *Harness) { s.load = load }
}

// afterLoad changes the records that Load returns.
func afterLoad(change func(keys []string, records []storage.Record)) builder {
	return loading(func(s *correct, ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
		records, now, err := s.Load(ctx, keys...)
		change(keys, records)
		return records, now, err
	})
}

func swapping(swap func(s *correct, ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error)) builder {
	return func(s *faulty, _ *Harness) { s.swap = swap }
}

func changingSwaps(change func(s *correct, swap *storage.Swap)) builder {
	return swapping(func(s *correct, ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
		swaps = slices.Clone(swaps)
		for i := range swaps {
			change(s, &swaps[i])
		}
		return s.CompareAndSwap(ctx, swaps...)
	})
}

// afterSwap calls change with the records of a conflict, if there is one.
func afterSwap(change func(s *correct, swaps []storage.Swap, current []storage.Record)) builder {
	return swapping(func(s *correct, ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
		current, swapped, err := s.CompareAndSwap(ctx, swaps...)
		change(s, swaps, current)
		return current, swapped, err
	})
}

func changingKeys(change func(key string) string) builder {
	return func(s *faulty, h *Harness) {
		changingSwaps(func(_ *correct, swap *storage.Swap) { swap.Key = change(swap.Key) })(s, h)
		s.load = func(s *correct, ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
			keys = slices.Clone(keys)
			for i := range keys {
				keys[i] = change(keys[i])
			}
			return s.Load(ctx, keys...)
		}
	}
}

// notAtomic compares, yields and then writes, if the first swap matches.
func notAtomic(match func(storage.Swap) bool) builder {
	return swapping(func(s *correct, ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
		isStale := func(swap storage.Swap) bool { return s.get(swap.Key).Version != swap.Old }
		if !match(swaps[0]) || slices.ContainsFunc(swaps, isStale) {
			return s.CompareAndSwap(ctx, swaps...)
		}
		yield()
		s.force(swaps...)
		return nil, true, nil
	})
}

// yield lets other goroutines run: those of this processor, and, because it sleeps, those of busy processors.
func yield() {
	for range 100 {
		runtime.Gosched()
	}
	time.Sleep(time.Microsecond)
}

// sharing returns a function that replaces states by the memory that it returned before for the same version.
func sharing() func(records []storage.Record) {
	own := map[storage.Version][]byte{}
	return func(records []storage.Record) {
		for i, r := range records {
			if _, ok := own[r.Version]; !ok {
				own[r.Version] = r.State
			}
			records[i].State = own[r.Version]
		}
	}
}

func clearTTLs(records []storage.Record) {
	for i := range records {
		records[i].TTL = 0
	}
}

func purging(purge func(s *correct, ctx context.Context, max int) (int, error)) builder {
	return func(s *faulty, _ *Harness) { s.purge = purge }
}

func listing(list func(s *correct, prefix, cursor string, max int) (keys []string, next string)) builder {
	return func(s *faulty, _ *Harness) { s.list = list }
}

func transacting(transact func(s *correct, ctx context.Context, clock func() time.Time, updates ...*driver.Update) error) builder {
	return func(s *faulty, _ *Harness) { s.transact = transact }
}

// deciding calls decide in place of Decide of each update.
func deciding(decide func(u *driver.Update, decide func() bool) bool) builder {
	return transacting(func(s *correct, ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
		for _, u := range updates {
			own := u.Decide
			u.Decide = func(now time.Time) bool { return decide(u, func() bool { return own(now) }) }
		}
		return s.Transact(ctx, clock, updates...)
	})
}

func running(run func(s *correct, ctx context.Context, b *driver.Batch)) builder {
	return func(s *faulty, _ *Harness) { s.run = run }
}

// changingTime runs batches at another time.
func changingTime(change func(s *correct, now time.Time) time.Time) builder {
	return running(func(s *correct, ctx context.Context, b *driver.Batch) {
		now := b.Now
		b.Now = change(s, now)
		s.runBatch(ctx, b)
		b.Now = now
	})
}

// changingWrites changes the writes of batches.
func changingWrites(edit func(b *driver.Batch, swap *storage.Swap)) builder {
	return running(func(s *correct, ctx context.Context, b *driver.Batch) {
		found, now, _ := s.Load(ctx, b.Keys...)
		swaps := swapsOf(b, found, now)
		for i := range swaps {
			edit(b, &swaps[i])
		}
		s.force(swaps...)
	})
}

// changingUses runs a copy of each batch with other uses.
func changingUses(edit func(r *driver.Request, use *driver.Use)) builder {
	return running(func(s *correct, ctx context.Context, b *driver.Batch) {
		requests := b.Requests
		b.Requests = slices.Clone(requests)
		for i := range b.Requests {
			r := &b.Requests[i]
			r.Uses = slices.Clone(r.Uses)
			for j := range r.Uses {
				edit(r, &r.Uses[j])
			}
		}
		s.runBatch(ctx, b)
		for i := range requests {
			requests[i].Applied = b.Requests[i].Applied
		}
		b.Requests = requests
	})
}
