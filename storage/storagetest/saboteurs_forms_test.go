package storagetest_test

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/storagetest"
)

// inABatch makes batchers that have the faults of these in their batches alone.
func inABatch(faulty []saboteur) (batchers []saboteur) {
	for _, s := range faulty {
		batchers = append(batchers, saboteur{s.fault + ", in a batch", s.law + ", in a batch", func(r *reference, h *storagetest.Harness) storage.Store {
			each := s.build(r, h)
			return batching(func(_ *reference, ctx context.Context, groups [][]storage.Swap) []storage.Outcome {
				outcomes, _ := storage.BeginBatch(ctx, groups)
				for i, group := range groups {
					if o := &outcomes[i]; !errors.Is(o.Err, storage.ErrDuplicateKey) || storage.Check(group) != nil { // its own duplicates are its own fault
						o.Current, o.Swapped, o.Err = each.CompareAndSwap(ctx, group...)
					}
				}
				return outcomes
			})(r, h)
		}})
	}
	return batchers
}

// atATime makes timed stores that have the faults of these in the calls at a given time alone.
func atATime(faulty []saboteur) (stores []saboteur) {
	for _, s := range faulty {
		stores = append(stores, saboteur{s.fault + ", at a given time", s.law + ", at a given time", func(r *reference, h *storagetest.Harness) storage.Store {
			inner := newReference(new(world))
			return timed{inner: inner, clock: r.world, faulty: s.build(inner, h)}
		}})
	}
	return stores
}

// timed has its records in a world of its own, where it is the time of the latest call.
type timed struct {
	inner  *reference
	clock  *world // of the plain calls, which are honest
	faulty storage.Store
}

func (t timed) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	return t.inner.LoadAt(ctx, t.clock.time(), keys...)
}

func (t timed) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	return t.inner.CompareAndSwapAt(ctx, t.clock.time(), swaps...)
}

func (t timed) LoadAt(ctx context.Context, now time.Time, keys ...string) ([]storage.Record, error) {
	t.inner.world.set(now)
	return t.faulty.Load(ctx, keys...)
}

func (t timed) CompareAndSwapAt(ctx context.Context, now time.Time, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	t.inner.world.set(now)
	return t.faulty.CompareAndSwap(ctx, swaps...)
}

func (w *world) set(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = now
}
