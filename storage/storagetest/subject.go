package storagetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// subject is a harness during a check. Its methods end the check if they fail.
type subject struct {
	Harness
	ctx context.Context
}

// on returns the subject with another store.
func (s *subject) on(store storage.Store) *subject {
	other := *s
	other.Store = store
	return &other
}

// violation is the value of the panic that ends a check.
type violation string

func (s *subject) fail(format string, args ...any) {
	panic(violation(fmt.Sprintf(format, args...)))
}

// catch calls f and returns the violation that ended it, or "".
func catch(f func()) (text string) {
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
	start, violations := make(chan struct{}), make(chan string, n)
	for i := range n {
		go func() {
			<-start
			violations <- catch(func() { f(i) })
		}()
	}
	close(start)

	limit := s.Timeout + time.Second // a second for calls that end after their context
	timeout, first := time.After(limit), ""
	for range n {
		select {
		case text := <-violations:
			first = cmp.Or(first, text)
		case <-timeout:
			s.fail("%d concurrent calls have not ended after %v", n, limit)
		}
	}
	if first != "" {
		s.fail("%s", first)
	}
}

func (s *subject) get(key string) storage.Record { return s.load(key)[0] }

// load loads keys and requires a record for each of them.
func (s *subject) load(keys ...string) []storage.Record {
	records, _, err := s.Store.Load(s.ctx, keys...)
	if err != nil || len(records) != len(keys) {
		s.fail("Load of %d keys returned %d records and the error %v", len(keys), len(records), err)
	}
	return records
}

// try applies swaps. It retries after ErrContended.
func (s *subject) try(swaps ...storage.Swap) (current []storage.Record, swapped bool) {
	for {
		current, swapped, err := s.Store.CompareAndSwap(s.ctx, swaps...)
		if errors.Is(err, storage.ErrContended) && s.ctx.Err() == nil {
			continue
		}
		if err != nil {
			s.fail("CompareAndSwap of %d keys, %.40q: %v", len(swaps), keysOf(swaps[:min(len(swaps), 5)]), err)
		}
		return current, swapped
	}
}

// put creates a record under an absent key.
func (s *subject) put(key, state string, ttl time.Duration) storage.Version {
	create := writing(key, 0, state, ttl)
	if _, swapped := s.try(create); !swapped {
		s.fail("the creation of the absent key %.40q was refused as a conflict", key)
	}
	return create.New.Version
}

// replace replaces the state of a stored record.
func (s *subject) replace(key string, old storage.Version, state string) storage.Version {
	replace := writing(key, old, state, 0)
	s.swap(replace)
	return replace.New.Version
}

// swap applies swaps that must not conflict.
func (s *subject) swap(swaps ...storage.Swap) {
	if _, swapped := s.try(swaps...); !swapped {
		s.fail("a swap of %d keys from the stored versions was refused as a conflict", len(swaps))
	}
}

// keeps requires that the TTL of a record, which what describes, is left. Up to a minute may have passed, and 0 means for ever.
func (s *subject) keeps(what string, r storage.Record, left time.Duration) {
	if left == 0 && r.TTL != 0 || left != 0 && (r.TTL <= left-time.Minute || r.TTL > left+s.Slack) {
		s.fail("%s has the TTL %v, want %v", what, r.TTL, left)
	}
}

// conflicts requires that the swaps are refused. what describes them.
func (s *subject) conflicts(what string, swaps ...storage.Swap) {
	if _, swapped := s.try(swaps...); swapped {
		s.fail("a swap applied that %s", what)
	}
}

// holds requires that key has a record with this version and state.
func (s *subject) holds(key string, version storage.Version, state string) {
	s.same(fmt.Sprintf("%.40q", key), s.load(key), storage.Record{Version: version, State: []byte(state)})
}

// same requires that records, which what describes, are these.
func (s *subject) same(what string, records []storage.Record, want ...storage.Record) {
	if len(records) != len(want) {
		s.fail("%s: %d records, want %d", what, len(records), len(want))
	}
	for i, got := range records {
		if got.Version != want[i].Version || string(got.State) != string(want[i].State) {
			s.fail("%s: record %d of %d is %s, want %s", what, i+1, len(want), show(got), show(want[i]))
		}
	}
}

// lacks requires that keys are absent.
func (s *subject) lacks(keys ...string) {
	for _, key := range keys {
		if got := s.get(key); !absent(got) {
			s.fail("%.40q has %s, want no record", key, show(got))
		}
	}
}

// lifetimes has the lifetimes of records, by the names of their keys. 0 means for ever.
type lifetimes map[string]time.Duration

// last requires that each record is present until its lifetime from now has passed, and then absent. It advances
// the time to a minute before and to the end of each lifetime.
func (s *subject) last(all lifetimes) {
	passed := time.Duration(0)
	for _, end := range slices.Compact(slices.Sorted(maps.Values(all))) {
		for _, at := range []time.Duration{end - time.Minute, end + s.Slack} {
			if at > passed {
				s.Advance(at - passed)
				passed = at
			}
			for name, lifetime := range all {
				if present := !absent(s.get(key(name))); present != (lifetime == 0 || passed < lifetime) {
					s.fail("the record %q should last for %v; after %v it exists: %v", name, lifetime, passed, present)
				}
			}
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

func show(r storage.Record) string {
	if absent(r) {
		return "no record"
	}
	return fmt.Sprintf("version %d with %d bytes %.40q", r.Version, len(r.State), r.State)
}

func keysOf(swaps []storage.Swap) (keys []string) {
	for _, swap := range swaps {
		keys = append(keys, swap.Key)
	}
	return keys
}

// group is the group of the keys of the laws. Redis Cluster can swap keys together only if they share a
// group.
const group = "law"

func key(name string) string {
	return driver.RuleKey{Group: group, Rule: driver.Rule("", "laws", "test"), Key: name}.String()
}

func keys(names ...string) (keys []string) {
	for _, name := range names {
		keys = append(keys, key(name))
	}
	return keys
}
