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

// subject is a store under a law, with verbs that end the check when they fail.
type subject struct {
	Harness
	ctx    context.Context
	cancel context.CancelFunc
}

func newSubject(h Harness) *subject {
	ctx, cancel := context.WithTimeout(context.Background(), h.Patience)
	return &subject{Harness: h, ctx: ctx, cancel: cancel}
}

// broken is what a check panics with once it has seen the law broken.
type broken string

func (s *subject) fail(format string, args ...any) {
	panic(broken(fmt.Sprintf(format, args...)))
}

// catch runs f and returns what it failed with, if it did.
func (s *subject) catch(f func()) (seen string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case broken:
			seen = string(r)
		default:
			panic(r)
		}
	}()
	f()
	return ""
}

// together runs f(0) to f(n-1) at once, and fails with the first of them that
// does, or when they do not end.
func (s *subject) together(n int, f func(i int)) {
	start, done, seen := make(chan struct{}), make(chan struct{}), make(chan string, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-start
			seen <- s.catch(func() { f(i) })
		})
	}
	close(start)
	go func() { group.Wait(); close(done) }()

	hung := time.NewTimer(s.Patience + time.Second) // a second for the calls that end with their context
	defer hung.Stop()
	select {
	case <-done:
	case <-hung.C:
		s.fail("calls that ran at once had not ended after %v, a second beyond their context", s.Patience+time.Second)
	}
	for range n {
		if what := <-seen; what != "" {
			s.fail("%s", what)
		}
	}
}

// get loads one key.
func (s *subject) get(key string) storage.Record { return s.getFrom(s.Store, key) }

func (s *subject) getFrom(store storage.Store, key string) storage.Record {
	records, err := store.Load(s.ctx, key)
	if err != nil {
		s.fail("Load(%.40q): %v", key, err)
	}
	if len(records) != 1 {
		s.fail("Load of 1 key answered %d records", len(records))
	}
	return records[0]
}

// try swaps, again while the store says that it was contended.
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

// put creates a record that nobody else is writing.
func (s *subject) put(key, state string, ttl time.Duration) storage.Version {
	return s.putIn(s.Store, key, state, ttl)
}

func (s *subject) putIn(store storage.Store, key, state string, ttl time.Duration) storage.Version {
	create := writing(key, 0, state, ttl)
	if _, swapped := s.tryIn(store, create); !swapped {
		s.fail("creating %.40q in an empty store was refused as a conflict", key)
	}
	return create.New.Version
}

// swap makes a swap that must succeed.
func (s *subject) swap(swaps ...storage.Swap) {
	if _, swapped := s.try(swaps...); !swapped {
		s.fail("a swap of %s from what is stored was refused as a conflict", keysOf(swaps))
	}
}

// holds requires that key has this version and state.
func (s *subject) holds(key string, version storage.Version, state string) {
	s.storeHolds(s.Store, key, version, state)
}

func (s *subject) storeHolds(store storage.Store, key string, version storage.Version, state string) {
	got := s.getFrom(store, key)
	if got.Version != version || string(got.State) != state {
		s.fail("%.40q should hold %s, holds %s", key,
			show(storage.Record{Version: version, State: []byte(state)}), show(got))
	}
}

// lacks requires that key is absent.
func (s *subject) lacks(key string) {
	if got := s.get(key); !absent(got) {
		s.fail("%.40q should be absent, holds %s", key, show(got))
	}
}

// writing is a swap of key to state under a fresh version.
func writing(key string, old storage.Version, state string, ttl time.Duration) storage.Swap {
	return storage.Swap{Key: key, Old: old, TTL: ttl,
		New: storage.Record{Version: storage.NewVersion(), State: []byte(state)}}
}

// deleting is a swap of key to nothing.
func deleting(key string, old storage.Version) storage.Swap {
	return storage.Swap{Key: key, Old: old}
}

// absent goes by the version alone; that the state is nil too is a law of its own.
func absent(r storage.Record) bool { return r.Version == 0 }

func show(r storage.Record) string {
	if absent(r) {
		return "nothing"
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

// key names a record so that all of a law's keys share a group: in Redis Cluster keys that are
// swapped together must.
func key(name string) string { return driver.Key("law", name) }
