package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

var _ driver.Server = (*Store)(nil)

// Runs implements [driver.Server]. The database can run the programs of this module's
// algorithms and those in Options.Programs, unless Options.NoFunctions is set.
func (s *Store) Runs(p *algo.Program) bool { return s.functions != nil && s.functions.Runs(p) }

// Run implements [driver.Server]. It sends one statement for each batch, one after the other. A batch
// takes a second round trip if another process creates one of its keys at the same moment.
//
// If another transaction holds the lock of a key for more than a quarter of a second, the requests
// that use this key fail with [storage.ErrContended] in Batch.KeyErr, and the other requests are
// decided. If all requests depend on that key, the batch waits until shortly before its deadline.
func (s *Store) Run(ctx context.Context, batches ...*driver.Batch) {
	for _, b := range batches {
		b.Err = s.runBatch(ctx, b)
	}
}

func (s *Store) runBatch(ctx context.Context, b *driver.Batch) error {
	if err := driver.BeginBatch(ctx, b); err != nil {
		return err
	}
	for _, p := range b.Programs {
		if !s.Runs(p) {
			return storage.NotApplied(fmt.Errorf("postgres: there is no function for the program %q", p.Name))
		}
	}
	b.At, b.Found, b.KeyErr = b.Now, make([]storage.Record, len(b.Keys)), nil
	if hasOnlyPeeks(b) {
		return s.peek(ctx, b)
	}
	if s.functions == nil { // the Resets of the batch must be decided by swaps
		err := s.peek(ctx, b)
		for i := range b.Requests {
			b.Requests[i].Applied = driver.Declined
		}
		return err
	}
	r := newRun(b)
	if len(b.Requests) < 2 || s.inTransaction() {
		return s.decide(ctx, r)
	}
	r.lockTimeout = s.batchLockTimeout
	if deadline, ok := ctx.Deadline(); ok { // leaves time to decide the parts
		r.lockTimeout = max(min(r.lockTimeout, time.Until(deadline)/3), time.Millisecond)
	}
	if err := s.decide(ctx, r); codeOf(err) != lockNotAvailable {
		return err
	}
	parts := r.split()
	if len(parts) == 1 { // a split does not help
		r.lockTimeout = 0
		return s.decide(ctx, r)
	}
	s.decideParts(ctx, parts)
	return nil
}

// hasOnlyPeeks reports whether a batch cannot change a record.
func hasOnlyPeeks(b *driver.Batch) bool {
	isWrite := func(u driver.Use) bool { return u.Op != driver.Peek }
	return !slices.ContainsFunc(b.Requests, func(r driver.Request) bool { return slices.ContainsFunc(r.Uses, isWrite) })
}

// peek decides a batch of Peeks. It locks no row.
func (s *Store) peek(ctx context.Context, b *driver.Batch) error {
	found, now, err := s.loadNow(ctx, b.Keys...)
	if err != nil {
		return storage.NotApplied(err)
	}
	b.Found, b.At = found, b.Now
	if b.Now.IsZero() {
		b.At = now
	}
	isStored := func(u driver.Use) bool { return found[u.Key].Version == b.Version }
	for i := range b.Requests {
		r := &b.Requests[i]
		if r.Applied = 0; slices.ContainsFunc(r.Uses, isStored) {
			r.Applied = driver.AlreadyStored
		}
	}
	return nil
}

// runAttempts is the maximum number of attempts for a batch if other transactions create its keys. A
// batch whose requests have several uses may need more than two.
const runAttempts = 10

// decide sends the statement, and sends it again for the keys that other transactions created
// meanwhile. If an attempt fails after some keys were decided, the error belongs to the other keys.
func (s *Store) decide(ctx context.Context, r *run) error {
	err, begun := errCreated, false
	for attempt := 0; attempt < runAttempts && errors.Is(err, errCreated); attempt++ {
		if err = s.attempt(ctx, r); err == nil {
			if begun = true; len(r.keys) > 0 {
				err = errCreated
			}
		}
	}
	if errors.Is(err, errCreated) {
		err = fmt.Errorf("%w: %w", storage.ErrContended, errCreated)
	}
	if err != nil && begun && !s.inTransaction() {
		r.failKeys(err)
		return nil
	}
	return err
}

// attempt sends the statement once.
func (s *Store) attempt(ctx context.Context, r *run) error {
	return s.send(ctx, r.lockTimeout, r.several, func(db DB, lockTimeout time.Duration) error {
		sql, args := s.sql.singles, r.args
		switch {
		case r.several:
			sql = s.sql.several
		case len(r.keys) == 1:
			sql, args = s.sql.one, r.oneArgs
		}
		rows, err := collectOn[row](ctx, s, db, sql, args(s.functions, lockTimeout)...)
		if err != nil {
			return err
		}
		if len(rows) != len(r.keys) {
			return fmt.Errorf("postgres: the reply has %d rows for %d keys", len(rows), len(r.keys))
		}
		r.apply(rows)
		return nil
	})
}

// decideParts decides the parts of a split batch one after the other. It stops at an outage.
func (s *Store) decideParts(ctx context.Context, parts []*run) {
	var outage error
	for _, part := range parts {
		if outage != nil {
			part.failKeys(storage.NotApplied(outage))
			continue
		}
		part.lockTimeout = splitLockTimeout
		if err := s.decide(ctx, part); err != nil {
			part.failKeys(err)
			if !errors.Is(err, storage.ErrContended) {
				outage = err
			}
		}
	}
}
