package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// form is a way of its own in which an ability asks for what [storage.Store] promises. The
// engine uses the ability instead of the plain methods, so the same laws judge both.
type form struct {
	name    string // after the name of a law
	opening string // before its sentence
	applies func(storage.Store) bool
	laws    []Law
	ask     func(*subject) // makes plain calls of the store calls of this form
}

var forms = []form{
	{
		name:    ", in a batch",
		opening: "In a batch: ",
		applies: can[storage.Batcher],
		laws:    slices.Concat(swappingLaws, opaqueLaws, refusingLaws, lapsingLaws, togetherLaws),
		ask: func(s *subject) {
			s.put(there, "state", 0)
			s.Store = &batched{Batcher: s.Store.(storage.Batcher)}
		},
	},
	{
		name:    ", at a given time",
		opening: "At a time that comes with the call: ",
		applies: can[storage.Timed],
		laws:    slices.Concat(readingLaws, swappingLaws, opaqueLaws, refusingLaws, lapsingLaws, togetherLaws),
		ask: func(s *subject) {
			d := &dated{Timed: s.Store.(storage.Timed), now: epoch.AddDate(30, 0, 0)}
			s.Store, s.Advance = d, func(passed time.Duration) { d.now = d.now.Add(passed) }
			s.Now = func() time.Time { return d.now }
		},
	},
}

// law is what a law of plain calls says of this form.
func (f form) law(plain Law) Law {
	return Law{
		Name:     plain.Name + f.name,
		Sentence: f.opening + plain.Sentence,
		applies:  f.applies,
		check: func(s *subject) {
			asked := *s
			f.ask(&asked)
			plain.check(&asked)
		},
	}
}

// there is the key of a record that is there before the first batch.
var there = storage.Key("there")

// batched swaps by batches. Before the group that is asked for is one that creates a
// record, after it one that is stale, and both must get their own answers.
type batched struct {
	storage.Batcher
	batches atomic.Int64
}

func (b *batched) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	n, ended := strconv.FormatInt(b.batches.Add(1), 10), ctx.Err() != nil
	outcomes := b.CompareAndSwapBatch(ctx,
		[]storage.Swap{writing(storage.Key("before", n), 0, "before", time.Minute)},
		swaps,
		[]storage.Swap{writing(there, 0, "after", 0)})
	if len(outcomes) != 3 {
		return nil, false, fmt.Errorf("a batch of 3 groups has %d outcomes", len(outcomes))
	}
	for i, o := range outcomes {
		if i != 1 && !isFine(ctx, o, i == 0, ended) {
			return nil, false, fmt.Errorf("group %d of 3, beside the one in question: swapped %v, error %v", i, o.Swapped, o.Err)
		}
	}
	return outcomes[1].Current, outcomes[1].Swapped, outcomes[1].Err
}

// isFine reports whether o may be the outcome of a group that is beside another in a batch
// and should have swapped or not. A database may give up all of the batch.
func isFine(ctx context.Context, o storage.Outcome, swapped, ended bool) bool {
	switch {
	case ended:
		return !o.Swapped && errors.Is(o.Err, storage.ErrNotApplied)
	case o.Err != nil:
		return errors.Is(o.Err, storage.ErrContended) || errors.Is(o.Err, storage.ErrDuplicateKey) || ctx.Err() != nil
	}
	return o.Swapped == swapped
}

// dated calls with a time that no clock says, and that Advance alone moves.
type dated struct {
	storage.Timed
	now time.Time
}

func (d *dated) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	return d.LoadAt(ctx, d.now, keys...)
}

func (d *dated) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	return d.CompareAndSwapAt(ctx, d.now, swaps...)
}
