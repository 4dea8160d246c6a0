package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Statements returns all SQL statements of the store.
func (s *Store) Statements() []string {
	return []string{s.sql.load, s.sql.swap, s.sql.purge, s.sql.list, s.sql.decide}
}

// SetLockTimeout sets the lock timeout of batches.
func (s *Store) SetLockTimeout(lockTimeout time.Duration) { s.batchLockTimeout = lockTimeout }

// RunIn runs a batch in a transaction, whose counters of the server a test can read.
func (s *Store) RunIn(ctx context.Context, tx pgx.Tx, b *driver.Batch) error {
	b.At, b.Found = b.Now, make([]storage.Record, len(b.Keys))
	r := newRun(b)
	args := r.args(s.functions)
	args[len(args)-1] = 0
	replies, err := collectOn[reply](ctx, s, tx, s.sql.decide, args...)
	if err != nil {
		return err
	}
	return r.apply(replies)
}

// PurgeBatch is the maximum number of records that a statement of Purge handles.
const PurgeBatch = purgeBatch
