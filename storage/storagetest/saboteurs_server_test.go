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

// serverSaboteurs break laws of servers. Each may break several of them.
var serverSaboteurs = []saboteur{
	{"returns no TTLs", "a batch returns the TTLs of denied requests", changingBatches(nil, func(b *driver.Batch) {
		for i := range b.Found {
			b.Found[i].TTL = 0
		}
	})},
	{"returns the records after the batch", "any batch is decided as in Go", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(ctx, b)
		if b.Err == nil && b.KeyErr == nil {
			b.Found, _, _ = r.Load(ctx, b.Keys...)
		}
	})},
	{"returns its own memory of a batch", "the caller owns the records of a batch", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(ctx, b)
		for i := range b.Found {
			if k := r.records[b.Keys[i]]; k.Version == b.Found[i].Version {
				b.Found[i].State = k.State
			}
		}
	})},
	{"decides the last request first", "any batch is decided as in Go", changingBatches(func(b *driver.Batch) {
		slices.Reverse(b.Requests)
	}, func(b *driver.Batch) { slices.Reverse(b.Requests) })},
	{"decides equal requests as one", "any batch is decided as in Go", changingBatches(eachUse(func(r *driver.Request, _ *driver.Use) {
		r.Times = 1
	}), nil)},
	{"allows all equal requests or none", "any batch is decided as in Go", changingBatches(eachUse(func(r *driver.Request, u *driver.Use) {
		u.Cost, r.Times = u.Cost*int64(max(r.Times, 1)), -max(r.Times, 1)
	}), eachRequest(func(r *driver.Request) {
		if r.Applied > 0 {
			r.Applied *= -min(r.Times, -1)
		}
	}))},
	{"takes a part of a denied request", "any batch is decided as in Go", changingBatches(eachUse(func(r *driver.Request, u *driver.Use) {
		u.Shadow = u.Shadow || len(r.Uses) > 1
	}), nil)},
	{"denies by shadow uses", "any batch is decided as in Go", changingBatches(eachUse(func(_ *driver.Request, u *driver.Use) {
		u.Shadow = false
	}), nil)},
	{"takes nothing for shadow uses", "any batch is decided as in Go", changingBatches(eachUse(func(_ *driver.Request, u *driver.Use) {
		if u.Shadow {
			u.Cost = 1 << 40
		}
	}), nil)},
	{"denies a charge", "any batch is decided as in Go", changingBatches(eachUse(func(_ *driver.Request, u *driver.Use) {
		if u.Op == driver.Charge {
			u.Op = driver.Allow
		}
	}), nil)},
	{"refunds one unit too many", "any batch is decided as in Go", changingBatches(eachUse(func(_ *driver.Request, u *driver.Use) {
		if u.Op == driver.Refund {
			u.Cost++
		}
	}), nil)},
	{"fails the batch of a damaged state", "any batch is decided as in Go", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(ctx, b)
		if slices.ContainsFunc(b.Requests, func(q driver.Request) bool { return q.Applied == driver.Damaged }) {
			b.Err = errors.New("damaged")
		}
	})},
	{"deletes a damaged state", "any batch is decided as in Go", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		for _, key := range b.Keys {
			if k := r.records[key]; string(k.State) == "not a state" {
				delete(r.records, key)
			}
		}
		r.Run(ctx, b)
	})},
	{"fails the batch of an unreadable key", "a key that cannot be read fails alone", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(ctx, b)
		b.Err = errors.Join(b.KeyErr...)
	})},
	{"treats an unreadable key as absent", "a key that cannot be read fails alone", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		clear(r.unreadable)
		r.Run(ctx, b)
	})},
	{"ignores that a write was dropped", "a decision that the database drops is an error", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		if r.Run(ctx, b); errors.Is(b.Err, errDropped) {
			b.Err = nil
		}
	})},
	{"stops at the first batch that fails", "each batch succeeds or fails alone", func(r *reference, _ *storagetest.Harness) storage.Store {
		return faultyRun{r, func(ctx context.Context, batches []*driver.Batch) {
			for _, b := range batches {
				if r.Run(ctx, b); b.Err != nil {
					return
				}
			}
		}}
	}},
	{"runs a batch after its deadline", "a batch after its deadline is not run", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(context.WithoutCancel(ctx), b)
		b.Err = errors.Join(b.Err, ctx.Err())
	})},
	{"unlocks before it writes", "concurrent batches do not exceed a limit", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		if len(b.Requests) != 2 || len(b.Keys) != 2 || b.Now.IsZero() {
			r.Run(ctx, b)
			return
		}
		found, _, err := r.Load(ctx, b.Keys...)
		if err != nil { // the time of the law is over
			b.Err = err
			return
		}
		changes := storagetest.Decide(b, found, b.Now)
		yield()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.store(b, changes)
	})},
	{"takes no more than 999 keys", "a batch may have many keys", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		if r.Run(ctx, b); len(b.Keys) > 999 {
			b.Err = errors.New("too many keys")
		}
	})},
	{"reports that it runs any program", "Runs reports which programs the server can run", func(r *reference, _ *storagetest.Harness) storage.Store {
		return runsAnything{r}
	}},
	{"decides by its own clock", "a batch is decided at its time", changingBatches(func(b *driver.Batch) { b.Now = time.Time{} }, nil)},
	{"rounds the time of a batch", "a batch is decided at its time", changingBatches(func(b *driver.Batch) { b.Now = b.Now.Truncate(time.Microsecond) }, nil)},
	{"decides at another time than it returns", "a batch without a time uses the server's clock", running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(ctx, b)
		if b.Now.IsZero() {
			b.At = b.At.Add(time.Second)
		}
	})},
	{"decides by a clock that is an hour ahead", "a batch without a time uses the server's clock", changingBatches(nil, nil, func(r *reference, b *driver.Batch) {
		if b.Now.IsZero() {
			b.Now = r.clock.time().Add(time.Hour)
		}
	})},
	{"keeps records for ever", "a batch sets TTLs", changingWrites(func(_ *driver.Batch, s *storage.Swap) { s.TTL = 0 })},
	{"keeps records for half of their TTL", "a batch sets TTLs", changingWrites(func(_ *driver.Batch, s *storage.Swap) { s.TTL, s.Until = s.TTL/2, time.Time{} })},
	{"counts the TTL of a batch only by its own clock", "a batch with a later time keeps its records longer", changingWrites(func(_ *driver.Batch, s *storage.Swap) { s.Until = time.Time{} })},
	{"adds no margin", "the margin is added to TTLs", changingWrites(func(b *driver.Batch, s *storage.Swap) {
		if s.TTL > 0 {
			s.TTL, s.Until = s.TTL-b.Margin, time.Time{}
		}
	})},
	{"writes its version at a denial", "a denial writes nothing", changingUnwritten(func(_ *reference, b *driver.Batch, k *storedRecord) { k.Version = b.Version })},
	{"changes the TTL at a denial", "a denial writes nothing", changingUnwritten(func(r *reference, _ *driver.Batch, k *storedRecord) { k.expires = r.clock.time().Add(time.Hour) })},
}

// randomBatchSaboteurs break the law of random batches, and no other law of servers.
var randomBatchSaboteurs = []saboteur{
	{"forgets a charge after a refund", "any batch is decided as in Go", changingBatches(func(b *driver.Batch) {
		refunded := map[int]bool{}
		eachUse(func(_ *driver.Request, u *driver.Use) {
			refunded[u.Key] = refunded[u.Key] || u.Op == driver.Refund
			if refunded[u.Key] && u.Op == driver.Charge {
				u.Op = driver.Refund
			}
		})(b)
	}, nil)},
}

// faultyRun has another Run.
type faultyRun struct {
	*reference
	run func(ctx context.Context, batches []*driver.Batch)
}

func (s faultyRun) Run(ctx context.Context, batches ...*driver.Batch) { s.run(ctx, batches) }

// runsAnything has another Runs.
type runsAnything struct{ *reference }

func (runsAnything) Runs(*algo.Program) bool { return true }

// running returns a builder of stores that call run for each batch.
func running(run func(r *reference, ctx context.Context, b *driver.Batch)) builder {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		return faultyRun{r, func(ctx context.Context, batches []*driver.Batch) {
			for _, b := range batches {
				run(r, ctx, b)
			}
		}}
	}
}

// changingBatches returns a builder of stores that change each batch before and after they run it.
func changingBatches(before, after func(*driver.Batch), with ...func(*reference, *driver.Batch)) builder {
	return running(func(r *reference, ctx context.Context, b *driver.Batch) {
		runChanged(func(b *driver.Batch) {
			if before != nil {
				before(b)
			}
			for _, edit := range with {
				edit(r, b)
			}
		}, after)(r, ctx, b)
	})
}

// runChanged runs a copy of a batch, which it changes before and after.
func runChanged(before, after func(*driver.Batch)) func(r *reference, ctx context.Context, b *driver.Batch) {
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

// changingWrites returns a builder of stores that change the writes of batches.
func changingWrites(edit func(b *driver.Batch, s *storage.Swap)) builder {
	return func(r *reference, _ *storagetest.Harness) storage.Store {
		r.edit = edit
		return r
	}
}

// changingUnwritten returns a builder of stores that change the records that a batch does not write.
func changingUnwritten(edit func(r *reference, b *driver.Batch, k *storedRecord)) builder {
	return running(func(r *reference, ctx context.Context, b *driver.Batch) {
		r.Run(ctx, b)
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range b.Found {
			if k := r.records[b.Keys[i]]; k.Version != 0 && k.Version == b.Found[i].Version {
				edit(r, b, &k)
				r.records[b.Keys[i]] = k
			}
		}
	})
}
