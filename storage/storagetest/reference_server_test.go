package storagetest_test

import (
	"context"
	"errors"
	"strings"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/storagetest"
)

func (r *reference) spoil(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unreadable[strings.Clone(key)] = true
}

func (r *reference) Place(...string) (server, slot string, err error) { return "", "", nil }

func (r *reference) Runs(p *algo.Program) bool {
	for i := range p.Parts {
		if !r.Runs(&p.Parts[i]) {
			return false
		}
	}
	return len(p.Parts) > 0 || p.Lua != ""
}

func (r *reference) Run(ctx context.Context, batches ...*driver.Batch) {
	for _, b := range batches {
		if b.Err = ctx.Err(); b.Err != nil {
			b.Err = storage.NotApplied(b.Err)
		} else if b.Err = driver.CheckKeys(b.Keys); b.Err == nil {
			r.mu.Lock()
			r.decide(b)
			r.mu.Unlock()
		}
	}
}

// decide runs a batch. The caller holds the lock.
func (r *reference) decide(b *driver.Batch) {
	now, found := r.clock.time(), make([]storage.Record, len(b.Keys))
	for i, key := range b.Keys {
		found[i] = copied(r.find(now, key))
	}
	restore := r.withoutUnreadable(b)
	changes := storagetest.Decide(b, found, now)
	for i, c := range changes {
		if c.Verb != driver.Keep && r.dropped[b.Keys[i]] {
			b.Err = errDropped
			restore(b)
			return
		}
	}
	r.store(b, changes)
	restore(b)
}

// store writes the changes of a batch. The caller holds the lock.
func (r *reference) store(b *driver.Batch, changes []driver.Change) {
	now := r.clock.time()
	for i, c := range changes {
		swap := storage.Swap{Key: b.Keys[i]}
		switch {
		case c.Verb == driver.Keep:
			continue
		case c.Verb == driver.Put:
			swap.New = storage.Record{Version: b.Version, State: c.State}
			if c.TTL > 0 {
				swap.TTL = c.TTL + b.Margin
			}
			if !b.Now.IsZero() {
				swap.Until = b.Now.Add(swap.TTL)
			}
		}
		if r.edit != nil {
			r.edit(b, &swap)
		}
		r.put(now, swap)
	}
}

// withoutUnreadable removes the requests on unreadable keys from a batch. The returned function restores them as
// failed requests.
func (r *reference) withoutUnreadable(b *driver.Batch) (restore func(*driver.Batch)) {
	var errs []error
	for i, key := range b.Keys {
		if r.unreadable[key] {
			if errs == nil {
				errs = make([]error, len(b.Keys))
			}
			errs[i] = storage.NotApplied(errors.New("cannot be read"))
		}
	}
	all := b.Requests
	if errs == nil {
		return func(*driver.Batch) {}
	}
	b.Requests = nil
	var at []int
	for i, request := range all {
		usable := true
		for _, use := range request.Uses {
			usable = usable && errs[use.Key] == nil
		}
		if usable {
			b.Requests, at = append(b.Requests, request), append(at, i)
		}
	}
	return func(b *driver.Batch) {
		for i := range all {
			all[i].Applied = 0
		}
		for i, request := range b.Requests {
			all[at[i]].Applied = request.Applied
		}
		b.Requests, b.KeyErr = all, errs
	}
}
