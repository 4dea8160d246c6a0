package storagetest_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/storagetest"
)

// ofServers break the laws of servers. They may break several, for that of random batches is about
// everything.
var ofServers = []saboteur{
	{"returns what a batch left", "a batch returns what it found", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(ctx, b)
		if b.Err == nil && b.KeyErr == nil {
			b.Found, _ = r.Load(ctx, b.Keys...)
		}
	})},
	{"hands out its own memory", "a batch returns what it found", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(ctx, b)
		for i := range b.Found {
			if k := r.kept[b.Keys[i]]; k.Version == b.Found[i].Version {
				b.Found[i].State = k.State
			}
		}
	})},
	{"decides the last request first", "requests of a batch are decided in order", asked(func(b *driver.Batch) {
		slices.Reverse(b.Requests)
	}, func(b *driver.Batch) { slices.Reverse(b.Requests) })},
	{"decides equal requests as one", "equal requests are decided one after the other", asked(eachUse(func(r *driver.Request, _ *driver.Use) {
		r.Times = 1
	}), nil)},
	{"allows all equal requests or none", "equal requests are decided one after the other", asked(eachUse(func(r *driver.Request, u *driver.Use) {
		u.Cost, r.Times = u.Cost*int64(max(r.Times, 1)), -max(r.Times, 1)
	}), eachRequest(func(r *driver.Request) {
		if r.Applied > 0 {
			r.Applied *= -min(r.Times, -1)
		}
	}))},
	{"takes what there is of a denied request", "a request takes all its units or none", asked(eachUse(func(r *driver.Request, u *driver.Use) {
		u.Shadow = u.Shadow || len(r.Uses) > 1
	}), nil)},
	{"obeys shadow uses", "a shadow use denies nothing", asked(eachUse(func(_ *driver.Request, u *driver.Use) {
		u.Shadow = false
	}), nil)},
	{"takes nothing for shadow uses", "a shadow use denies nothing", asked(eachUse(func(_ *driver.Request, u *driver.Use) {
		if u.Shadow {
			u.Op = driver.Peek
		}
	}), nil)},
	{"takes a unit for a peek", "a peek changes nothing", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		if len(b.Programs) > 0 {
			asking(eachUse(func(_ *driver.Request, u *driver.Use) {
				if u.Op == driver.Peek {
					u.Op, u.Cost = driver.Charge, 1
				}
			}), nil)(r, ctx, b)
		} else {
			r.Run(ctx, b)
		}
	})},
	{"forgets to reset", "a reset deletes the record", asked(eachUse(func(_ *driver.Request, u *driver.Use) {
		if u.Op == driver.Reset {
			u.Op = driver.Peek
		}
	}), nil)},
	{"denies a charge", "refunds and charges are steps", asked(eachUse(func(_ *driver.Request, u *driver.Use) {
		if u.Op == driver.Charge {
			u.Op = driver.Allow
		}
	}), nil)},
	{"gives back one unit too many", "refunds and charges are steps", asked(eachUse(func(_ *driver.Request, u *driver.Use) {
		if u.Op == driver.Refund {
			u.Cost++
		}
	}), nil)},
	{"fails the batch of a damaged state", "a damaged state fails alone", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(ctx, b)
		if slices.ContainsFunc(b.Requests, func(q driver.Request) bool { return q.Applied == driver.Damaged }) {
			b.Err = errors.New("damaged")
		}
	})},
	{"takes a damaged state for none", "a damaged state fails alone", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		for _, key := range b.Keys {
			if k := r.kept[key]; string(k.State) == "not a state" {
				delete(r.kept, key)
			}
		}
		r.Run(ctx, b)
	})},
	{"fails the batch of a key that cannot be read", "a key that cannot be read fails alone", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(ctx, b)
		b.Err = errors.Join(b.KeyErr...)
	})},
	{"takes a key that cannot be read for an absent one", "a key that cannot be read fails alone", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		clear(r.bad)
		r.Run(ctx, b)
	})},
	{"stops at the first batch that fails", "each batch succeeds or fails alone", func(r *reference, _ *storagetest.Harness) storage.Store {
		return runner{r, func(ctx context.Context, batches []*driver.Batch) {
			for _, b := range batches {
				if r.Run(ctx, b); b.Err != nil {
					return
				}
			}
		}}
	}},
	{"runs a batch that comes too late", "a batch that comes too late is not run", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(context.WithoutCancel(ctx), b)
		b.Err = errors.Join(b.Err, ctx.Err())
	})},
	{"lets go of its lock before it writes", "batches are decided in one instant", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		if len(b.Requests) != 2 || len(b.Keys) != 2 || b.Now.IsZero() {
			r.Run(ctx, b)
			return
		}
		found, _ := r.Load(ctx, b.Keys...)
		changes := storagetest.Decide(b, found, b.Now, storagetest.PolicyOf)
		hesitate()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.store(b, changes)
	})},
	{"takes no more than 999 keys", "a batch may have many keys", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		if r.Run(ctx, b); len(b.Keys) > 999 {
			b.Err = errors.New("too many keys")
		}
	})},
	{"says that it runs anything", "a server knows what it can run", func(r *reference, _ *storagetest.Harness) storage.Store {
		return boaster{r}
	}},
	{"decides by its own clock", "a batch is decided at its time", asked(func(b *driver.Batch) { b.Now = time.Time{} }, nil)},
	{"rounds the time of a batch", "a batch is decided at its time", asked(func(b *driver.Batch) { b.Now = b.Now.Truncate(time.Microsecond) }, nil)},
	{"decides at another time than it returns", "the server's clock decides", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(ctx, b)
		if b.Now.IsZero() {
			b.At = b.At.Add(time.Second)
		}
	})},
	{"decides by a clock that is an hour ahead", "the server's clock decides", asked(nil, nil, func(r *reference, b *driver.Batch) {
		if b.Now.IsZero() {
			b.Now = r.world.time().Add(time.Hour)
		}
	})},
	{"keeps records for ever", "a batch sets TTLs", stored(func(_ *driver.Batch, s *storage.Swap) { s.TTL = 0 })},
	{"keeps records for half of their TTL", "a batch sets TTLs", stored(func(_ *driver.Batch, s *storage.Swap) { s.TTL, s.Until = s.TTL/2, time.Time{} })},
	{"counts the TTL by its own clock alone", "a record of a batch is kept until it is as new", stored(func(_ *driver.Batch, s *storage.Swap) { s.Until = time.Time{} })},
	{"adds no margin", "the margin is added to TTLs", stored(func(b *driver.Batch, s *storage.Swap) {
		if s.TTL > 0 {
			s.TTL, s.Until = s.TTL-b.Margin, time.Time{}
		}
	})},
	{"writes its version at a denial", "a denial writes nothing", denying(func(_ *reference, b *driver.Batch, k *kept) { k.Version = b.Version })},
	{"refreshes the TTL at a denial", "a denial writes nothing", denying(func(r *reference, _ *driver.Batch, k *kept) { k.expires = r.world.time().Add(time.Hour) })},
	{"decides a batch again", "a batch is not applied twice", func(r *reference, h *storagetest.Harness) storage.Store {
		var version storage.Version
		r.edit = func(_ *driver.Batch, s *storage.Swap) {
			if s.New.Version != 0 {
				s.New.Version = version
			}
		}
		return running(func(r *reference, ctx context.Context, b *driver.Batch) {
			version = b.Version
			asking(func(b *driver.Batch) { b.Version = storage.NewVersion() }, nil)(r, ctx, b)
		})(r, h)
	}},
	{"takes all requests for stored if one is", "a batch is not applied twice", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(ctx, b)
		if slices.ContainsFunc(b.Requests, func(q driver.Request) bool { return q.Applied == driver.Stored }) {
			for i := range b.Requests {
				b.Requests[i].Applied = driver.Stored
			}
		}
	})},
}

// inRandomBatches break the law of random batches alone.
var inRandomBatches = []saboteur{
	{"forgets a charge after a reset", "any batch is decided as in Go", asked(func(b *driver.Batch) {
		reset := map[int]bool{}
		eachUse(func(_ *driver.Request, u *driver.Use) {
			reset[u.Key] = reset[u.Key] || u.Op == driver.Reset
			if reset[u.Key] && u.Op == driver.Charge {
				u.Op = driver.Refund
			}
		})(b)
	}, nil)},
}

// runner is a saboteur among the servers.
type runner struct {
	*reference
	run func(ctx context.Context, batches []*driver.Batch)
}

func (s runner) Run(ctx context.Context, batches ...*driver.Batch) { s.run(ctx, batches) }

type boaster struct{ *reference }

func (boaster) Runs(*algo.Program) bool { return true }

// running makes a saboteur that runs each batch in its own way.
func running(run func(r *reference, ctx context.Context, b *driver.Batch)) func(*reference, *storagetest.Harness) storage.Store {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return runner{r, func(ctx context.Context, batches []*driver.Batch) {
			for _, b := range batches {
				run(r, ctx, b)
			}
		}}
	}
}

// asked makes a saboteur that runs other batches than it is asked to.
func asked(before, after func(*driver.Batch), with ...func(*reference, *driver.Batch)) func(*reference, *storagetest.Harness) storage.Store {
	return running(func(r *reference, ctx context.Context, b *driver.Batch) {
		asking(func(b *driver.Batch) {
			if before != nil {
				before(b)
			}
			for _, edit := range with {
				edit(r, b)
			}
		}, after)(r, ctx, b)
	})
}

// asking runs a copy of a batch, which it edits before and after.
func asking(before, after func(*driver.Batch)) func(r *reference, ctx context.Context, b *driver.Batch) {
	return func(r *reference, ctx context.Context, b *driver.Batch) {
		edited := *b
		edited.Requests = slices.Clone(b.Requests)
		for i := range edited.Requests {
			edited.Requests[i].Uses = slices.Clone(b.Requests[i].Uses)
		}
		before(&edited)
		r.Run(ctx, &edited)
		if after != nil {
			after(&edited)
		}
		b.Err, b.KeyErr, b.At, b.Found = edited.Err, edited.KeyErr, edited.At, edited.Found
		for i := range b.Requests {
			b.Requests[i].Applied = edited.Requests[i].Applied
		}
	}
}

func eachUse(edit func(r *driver.Request, u *driver.Use)) func(*driver.Batch) {
	return func(b *driver.Batch) {
		for i := range b.Requests {
			for j := range b.Requests[i].Uses {
				edit(&b.Requests[i], &b.Requests[i].Uses[j])
			}
		}
	}
}

func eachRequest(edit func(r *driver.Request)) func(*driver.Batch) {
	return func(b *driver.Batch) {
		for i := range b.Requests {
			edit(&b.Requests[i])
		}
	}
}

// stored makes a saboteur that writes the records of batches in its own way.
func stored(edit func(b *driver.Batch, s *storage.Swap)) func(*reference, *storagetest.Harness) storage.Store {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		r.edit = edit
		return r
	}
}

// denying makes a saboteur that changes the records that a batch leaves as they are.
func denying(edit func(r *reference, b *driver.Batch, k *kept)) func(*reference, *storagetest.Harness) storage.Store {
	return running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(ctx, b)
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range b.Found {
			if k := r.kept[b.Keys[i]]; k.Version != 0 && k.Version == b.Found[i].Version {
				edit(r, b, &k)
				r.kept[b.Keys[i]] = k
			}
		}
	})
}
