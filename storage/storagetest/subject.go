package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// subject is a harness during a check. Its methods end the check if they fail.
type subject struct {
	Harness
	ctx    context.Context
	cancel context.CancelFunc
}

func newSubject(h Harness) *subject {
	ctx, cancel := context.WithTimeout(context.Background(), h.Patience)
	return &subject{Harness: h, ctx: ctx, cancel: cancel}
}

// violation is the value of the panic that ends a check.
type violation string

func (s *subject) fail(format string, args ...any) {
	panic(violation(fmt.Sprintf(format, args...)))
}

// catch calls f and returns the violation that ended it, or "".
func (s *subject) catch(f func()) (text string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case violation:
			text = string(r)
		default:
			panic(r)
		}
	}()
	f()
	return ""
}

// concurrently calls f(0) to f(n-1) in n goroutines. It fails if one of them fails or hangs.
func (s *subject) concurrently(n int, f func(i int)) {
	start, done, violations := make(chan struct{}), make(chan struct{}), make(chan string, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-start
			violations <- s.catch(func() { f(i) })
		})
	}
	close(start)
	go func() { group.Wait(); close(done) }()

	limit := s.Patience + time.Second // a second for calls that end after their context
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.fail("%d concurrent calls have not ended after %v", n, limit)
	}
	for range n {
		if text := <-violations; text != "" {
			s.fail("%s", text)
		}
	}
}

func (s *subject) get(key string) storage.Record { return s.getFrom(s.Store, key) }

func (s *subject) getFrom(store storage.Store, key string) storage.Record {
	return s.load(store, key)[0]
}

// load loads keys and requires a record for each of them.
func (s *subject) load(store storage.Store, keys ...string) []storage.Record {
	records, err := store.Load(s.ctx, keys...)
	if err != nil || len(records) != len(keys) {
		s.fail("Load of %d keys returned %d records and the error %v", len(keys), len(records), err)
	}
	return records
}

// try applies swaps. It retries after ErrContended.
func (s *subject) try(swaps ...storage.Swap) (current []storage.Record, swapped bool) {
	return s.tryIn(s.Store, swaps...)
}

func (s *subject) tryIn(store storage.Store, swaps ...storage.Swap) ([]storage.Record, bool) {
	for {
		current, swapped, err := store.CompareAndSwap(s.ctx, swaps...)
		if errors.Is(err, storage.ErrContended) && s.ctx.Err() == nil {
			continue
		}
		if err != nil {
			s.fail("CompareAndSwap of %s: %v", keysOf(swaps), err)
		}
		return current, swapped
	}
}

// put creates a record under an absent key.
func (s *subject) put(key, state string, ttl time.Duration) storage.Version {
	return s.putIn(s.Store, key, state, ttl)
}

func (s *subject) putIn(store storage.Store, key, state string, ttl time.Duration) storage.Version {
	create := writing(key, 0, state, ttl)
	if _, swapped := s.tryIn(store, create); !swapped {
		s.fail("the creation of the absent key %.40q was refused as a conflict", key)
	}
	return create.New.Version
}

// swap applies swaps that must not conflict.
func (s *subject) swap(swaps ...storage.Swap) {
	if _, swapped := s.try(swaps...); !swapped {
		s.fail("a swap of %s from the stored versions was refused as a conflict", keysOf(swaps))
	}
}

// holds requires that key has a record with this version and state.
func (s *subject) holds(key string, version storage.Version, state string) {
	s.storeHolds(s.Store, key, version, state)
}

func (s *subject) storeHolds(store storage.Store, key string, version storage.Version, state string) {
	if got, want := s.getFrom(store, key), (storage.Record{Version: version, State: []byte(state)}); !equal(got, want) {
		s.fail("%.40q has %s, want %s", key, show(got), show(want))
	}
}

// lacks requires that key is absent.
func (s *subject) lacks(key string) {
	if got := s.get(key); !absent(got) {
		s.fail("%.40q has %s, want no record", key, show(got))
	}
}

// present requires that the keys with these names have records.
func (s *subject) present(names ...string) {
	for _, name := range names {
		if absent(s.get(key(name))) {
			s.fail("the record %q expired too early", name)
		}
	}
}

// expired requires that the keys with these names have no records.
func (s *subject) expired(names ...string) {
	for _, name := range names {
		if !absent(s.get(key(name))) {
			s.fail("the record %q did not expire", name)
		}
	}
}

// writing returns a swap that writes state with a new version.
func writing(key string, old storage.Version, state string, ttl time.Duration) storage.Swap {
	return storage.Swap{Key: key, Old: old, TTL: ttl,
		New: storage.Record{Version: storage.NewVersion(), State: []byte(state)}}
}

func deleting(key string, old storage.Version) storage.Swap {
	return storage.Swap{Key: key, Old: old}
}

// absent reports whether r is the record of an absent key. It ignores the state, which has a law of its own.
func absent(r storage.Record) bool { return r.Version == 0 }

func equal(a, b storage.Record) bool {
	return a.Version == b.Version && string(a.State) == string(b.State)
}

func show(r storage.Record) string {
	if absent(r) {
		return "no record"
	}
	return fmt.Sprintf("version %d with %d bytes %.40q", r.Version, len(r.State), r.State)
}

func keysOf(swaps []storage.Swap) string {
	const shown = 5
	keys := make([]string, min(len(swaps), shown))
	for i := range keys {
		keys[i] = fmt.Sprintf("%.40q", swaps[i].Key)
	}
	if len(swaps) > shown {
		return fmt.Sprint(keys, " and ", len(swaps)-shown, " more")
	}
	return fmt.Sprint(keys)
}

// key returns a key in the group of the laws. Redis Cluster can swap keys together only if they share a
// group.
func key(name string) string { return driver.Key("law", name) }
