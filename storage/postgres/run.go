package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

var (
	_ driver.Server     = (*Store)(nil)
	_ driver.ServerTime = (*Store)(nil)
)

// Runs implements [driver.Server]. The database can run the programs of this module's
// algorithms and those in Options.Programs, unless Options.NoFunctions is set.
func (s *Store) Runs(p *algo.Program) bool { return s.functions != nil && s.functions.Runs(p) }

// Run implements [driver.Server]. Each batch is one statement, one after the other. It takes a second
// round trip if a key is created by another process at the same moment.
//
// If somebody has locked a key for a quarter of a second, the requests that use it fail
// with [storage.ErrContended] in Batch.KeyErr, and the others are decided without it. If no
// request can do without that key, the batch waits as long as its context allows.
func (s *Store) Run(ctx context.Context, batches ...*driver.Batch) {
	for _, b := range batches {
		b.Err = s.runBatch(ctx, b)
	}
}

func (s *Store) runBatch(ctx context.Context, b *driver.Batch) error {
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	if err := driver.CheckKeys(b.Keys); err != nil {
		return err
	}
	for _, p := range b.Programs {
		if !s.Runs(p) {
			return storage.NotApplied(fmt.Errorf("postgres: there is no function for the program %q", p.Name))
		}
	}
	b.At, b.Found, b.KeyErr = time.Time{}, make([]storage.Record, len(b.Keys)), nil
	switch {
	case onlyPeeks(b):
		return s.peek(ctx, b)
	case s.functions == nil:
		return s.resetBySwap(ctx, b)
	}
	r := newRun(b)
	if len(b.Requests) < 2 || s.inside() {
		return s.decide(ctx, r)
	}
	parts := r.parts()
	if len(parts) > 1 { // else nobody gains by giving up
		r.lockTimeout = s.batchLockTimeout
		if deadline, ok := ctx.Deadline(); ok { // leaves time to decide apart
			r.lockTimeout = max(min(r.lockTimeout, time.Until(deadline)/3), time.Millisecond)
		}
	}
	err := s.decide(ctx, r)
	if isLockTimeout(err) && len(parts) > 1 {
		s.decideApart(ctx, parts)
		return nil
	}
	return err
}

// onlyPeeks reports whether a batch changes nothing, whatever is stored.
func onlyPeeks(b *driver.Batch) bool {
	for i := range b.Requests {
		for _, u := range b.Requests[i].Uses {
			if u.Op != driver.Peek {
				return false
			}
		}
	}
	return true
}

// peek reads the keys of a batch, and locks nothing.
func (s *Store) peek(ctx context.Context, b *driver.Batch) error {
	found, now, err := s.LoadNow(ctx, b.Keys...)
	if err != nil {
		return storage.NotApplied(err)
	}
	b.Found, b.At = found, now
	if !b.Now.IsZero() {
		b.At = b.Now
	}
	for i := range b.Requests {
		b.Requests[i].Applied = 0
		for _, u := range b.Requests[i].Uses {
			if found[u.Key].Version == b.Version {
				b.Requests[i].Applied = driver.Stored
			}
		}
	}
	return nil
}

// resetBySwap decides a batch of Peeks and Resets without functions.
func (s *Store) resetBySwap(ctx context.Context, b *driver.Batch) error {
	for range runAttempts {
		if err := s.peek(ctx, b); err != nil {
			return err
		}
		_, swapped, err := s.CompareAndSwap(ctx, deletions(b)...)
		if err != nil || swapped {
			return err
		}
	}
	return fmt.Errorf("postgres: %w: the keys of a reset changed %d times", storage.ErrContended, runAttempts)
}

// deletions are the swaps that delete what the Resets of a batch have found.
func deletions(b *driver.Batch) (swaps []storage.Swap) {
	seen := map[int]bool{}
	for _, r := range b.Requests {
		for _, u := range r.Uses {
			old := b.Found[u.Key].Version
			if u.Op == driver.Reset && r.Applied == 0 && old != 0 && !seen[u.Key] {
				seen[u.Key] = true
				swaps = append(swaps, storage.Swap{Key: b.Keys[u.Key], Old: old})
			}
		}
	}
	return swaps
}

// runAttempts is how often a batch is tried when a key was created at the same moment. A batch of
// several uses may meet that again, while it waits for a key that many use.
const runAttempts = 10

// decide sends the statement until no key is left that was created by another meanwhile. An error
// after others were decided is one of the keys that are left.
func (s *Store) decide(ctx context.Context, r *run) error {
	err := errRaced
	for range runAttempts {
		if err = s.attemptRun(ctx, r); err == nil && len(r.keys) == 0 || err != nil && !errors.Is(err, errRaced) {
			break
		}
		err = errRaced
	}
	if errors.Is(err, errRaced) {
		err = fmt.Errorf("%w: %w", storage.ErrContended, errRaced)
	}
	if err != nil && r.settled && !s.inside() {
		r.failKeys(err)
		return nil
	}
	return err
}

// decideApart decides parts that share no key, one after the other, because one was in the way
// of all. It stops at an outage.
func (s *Store) decideApart(ctx context.Context, parts []*run) {
	var outage error
	for _, part := range parts {
		if outage != nil {
			part.failKeys(storage.NotApplied(outage))
			continue
		}
		part.lockTimeout = retryLockTimeout
		if part.now == nil && !part.batch.At.IsZero() {
			now := algo.Instant(part.batch.At)
			part.now = &now
		}
		err := s.decide(ctx, part)
		part.failKeys(err)
		if err != nil && !errors.Is(err, storage.ErrContended) {
			outage = err
		}
	}
}

// attemptRun sends the statement once; in a transaction of the caller behind a savepoint, if it may
// fail.
func (s *Store) attemptRun(ctx context.Context, r *run) error {
	db, release, err := s.connection(ctx)
	if err != nil {
		return err
	}
	defer release()
	tx, inside := db.(pgx.Tx)
	switch {
	case !inside:
		return s.withinDeadline(ctx, r.lockTimeout, func(lockTimeout time.Duration) error { return s.execRun(ctx, db, r, lockTimeout) })
	case r.several:
		return s.behindSavepoint(ctx, tx, func(savepoint pgx.Tx) error { return s.execRun(ctx, savepoint, r, 0) })
	}
	return s.execRun(ctx, tx, r, 0)
}

func (s *Store) execRun(ctx context.Context, db DB, r *run, lockTimeout time.Duration) error {
	sql, args := s.sql.singles, r.args
	switch {
	case r.isOne():
		sql, args = s.sql.one, r.oneArgs
	case r.several:
		sql = s.sql.several
	}
	rows, err := collectOn(ctx, s, db, readDecided, sql, args(s.functions, lockTimeout)...)
	if err != nil {
		return err
	}
	if len(rows) != len(r.keys) {
		return fmt.Errorf("postgres: %d rows for %d keys", len(rows), len(r.keys))
	}
	r.settle(rows)
	return nil
}
