package storagetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// writeLaws are about all methods that write: those of Store, Transactor and Server.
var writeLaws = []Law{
	law("a call after its context has ended changes nothing",
		"If the context has ended before the call, no method changes anything. The error wraps the context's error, and if it is one of "+
			"a write, ErrNotApplied.", func(s *subject) {
			k := key("k")
			ended, cancel := context.WithDeadline(s.ctx, time.Unix(1, 0))
			defer cancel()
			for name, write := range s.writes(ended, false, k) {
				if err := write(); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, storage.ErrNotApplied) {
					s.fail("%s returned the error %v", name, err)
				}
				s.lacks(k)
			}
			if _, _, err := s.Store.Load(ended, k); !errors.Is(err, context.DeadlineExceeded) {
				s.fail("Load returned the error %v", err)
			}
			purger, ok := s.Store.(storage.Purger)
			if !ok {
				return
			}
			s.put(k, "x", hour)
			s.Advance(hour + s.Slack)
			if n, err := purger.Purge(ended, 1); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
				s.fail("Purge removed %d records, error %v", n, err)
			}
		}),
	law("a write that the database drops is an error",
		"If the database drops the write of a key, no method changes any key of the call, and the error wraps ErrNotApplied.", func(s *subject) {
			if s.DropWrites == nil {
				return
			}
			old, created, beside := key("dropped old"), key("dropped new"), key("beside")
			state := stateAfter(tenAnHour, s.Now(), 1) // which a program can read
			version := s.put(old, state, 0)
			s.DropWrites(old)
			s.DropWrites(created)
			for what, calls := range map[string]map[string]func() error{
				"replaces": s.writes(s.ctx, false, old), "deletes": s.writes(s.ctx, true, old), "creates": s.writes(s.ctx, false, created),
				"replaces beside a creation": s.writes(s.ctx, false, old, beside), "creates beside another": s.writes(s.ctx, false, created, beside),
			} {
				for name, write := range calls {
					if err := write(); !errors.Is(err, storage.ErrNotApplied) {
						s.fail("the database dropped a write of %s that %s a record, and the error is %v", name, what, err)
					}
					s.holds(old, version, state)
					s.lacks(created, beside)
				}
			}
		}),
	law("memory is not shared",
		"A store does not keep the memory of the states that it gets, does not return memory that it keeps, and no two returned records "+
			"share memory.", func(s *subject) {
			for _, size := range []int{5, 300, 70_000} {
				k, text := key(fmt.Sprint("state of ", size)), strings.Repeat("s", size)
				create := writing(k, 0, text, 0)
				s.swap(create)
				if string(create.New.State) != text {
					s.fail("the store changed its argument to %.40q", create.New.State)
				}
				spoil(create.New.State)
				s.holds(k, create.New.Version, text)
			}
			a, b := key("a"), key("b")
			s.put(a, "state a", 0)
			s.put(b, "state b", 0)
			read := func() (all [][]storage.Record) {
				current, _ := s.try(writing(a, storage.NewVersion(), "x", 0), writing(b, storage.NewVersion(), "x", 0))
				all = append(all, s.load(a, b, a), current)
				if server, ok := s.Store.(driver.Server); ok {
					denied := taking(tenAnHour, 11, "a", "b")
					server.Run(s.ctx, denied)
					all = append(all, denied.Found)
				}
				return all
			}
			before := fmt.Sprint(read())
			for i, records := range read() {
				s.recordsShareNoMemory(fmt.Sprint("reply ", i), records)
			}
			if after := fmt.Sprint(read()); after != before {
				s.fail("the records changed after the caller had changed those of an earlier reply")
			}
			if _, ok := s.Store.(driver.Transactor); !ok {
				return
			}
			for _, text := range []string{"state", strings.Repeat("s", 300)} {
				change := putting(text, 0)
				s.transact(nil, changing(keys("k"), change))
				spoil(change.State)
				s.finds(keys("k"), text)
			}
		}),
	law("no increment is lost",
		"If many goroutines create and increment one or two numbers concurrently, no increment is lost. Some of them use CompareAndSwap, "+
			"and if the store is a Transactor, others Transact.", func(s *subject) {
			const rounds, adders, times = 20, 8, 2
			_, transacts := s.Store.(driver.Transactor)
			for round := range rounds {
				keys := keys(fmt.Sprint("a ", round), fmt.Sprint("b ", round))[:1+round%2] // stores may treat a single key in another way
				s.concurrently(adders, func(i int) {
					for range times {
						if transacts && round >= rounds/2 && i%2 == 0 {
							s.incrementInTransaction(keys)
						} else {
							s.increment(keys)
						}
					}
				})
				for _, r := range s.load(keys...) {
					if string(r.State) != strconv.Itoa(adders*times) {
						s.fail("after %d increments the key has %s", adders*times, show(r))
					}
				}
			}
		}),
}

// writes returns a call of each method that can write the records of keys, by its name. The call deletes all records, or
// creates or replaces them. A Server must be able to read their states.
func (s *subject) writes(ctx context.Context, remove bool, names ...string) map[string]func() error {
	calls := map[string]func() error{"CompareAndSwap": func() error {
		var swaps []storage.Swap
		for i, r := range s.load(names...) {
			if remove {
				swaps = append(swaps, deleting(names[i], r.Version))
			} else {
				swaps = append(swaps, writing(names[i], r.Version, "x", 0))
			}
		}
		_, _, err := s.Store.CompareAndSwap(ctx, swaps...)
		return err
	}}
	if t, ok := s.Store.(driver.Transactor); ok {
		change := putting("x", 0)
		if remove {
			change = removing
		}
		changes := make([]driver.Change, len(names))
		for i := range changes {
			changes[i] = change
		}
		calls["Transact"] = func() error { return t.Transact(ctx, nil, changing(names, changes...)) }
	}
	if server, ok := s.Store.(driver.Server); ok {
		calls["Run"] = func() error {
			r := driver.Request{Times: 1}
			for i := range names {
				use := allow(i, 1)
				if remove {
					use = driver.Use{Key: i, Op: driver.Refund, Cost: 10} // the key is full
				}
				r.Uses = append(r.Uses, use)
			}
			b := batchOf(tenAnHour, nil, r)
			b.Keys = names
			server.Run(ctx, b)
			return cmp.Or(b.Err, errors.Join(b.KeyErr...))
		}
	}
	return calls
}

// increment adds one to the numbers under keys with a swap. An absent key has the number 0. It retries after conflicts.
func (s *subject) increment(keys []string) {
	for swapped := false; !swapped; {
		var swaps []storage.Swap
		for i, r := range s.load(keys...) {
			swaps = append(swaps, writing(keys[i], r.Version, s.successor(r.State), 0))
		}
		_, swapped = s.try(swaps...)
	}
}

// incrementInTransaction adds one to the numbers under keys, which it lists in the opposite order.
func (s *subject) incrementInTransaction(names []string) {
	opposite := slices.Clone(names)
	slices.Reverse(opposite)
	s.transact(nil, updateOf(opposite, func(_ time.Time, items []driver.Item) bool {
		for i := range items {
			items[i].Next = putting(s.successor(items[i].Found.State), 0)
		}
		return true
	}))
}

// successor returns the next number after the one in state.
func (s *subject) successor(state []byte) string {
	n, err := strconv.Atoi(cmp.Or(string(state), "0"))
	if err != nil {
		s.fail("the state of the key should be a number, but is %.40q", state)
	}
	return strconv.Itoa(n + 1)
}
