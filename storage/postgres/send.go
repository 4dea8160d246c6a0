package postgres

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// isPoolClosed reports whether err is or wraps puddle.ErrClosedPool, which Acquire returns after Close.
// pgxpool does not export this error, and an import of puddle would be a direct requirement of this module.
func isPoolClosed(err error) bool { return strings.HasSuffix(err.Error(), "closed pool") }

// connection returns the connection or the transaction for a statement, and a function to release it. If
// it cannot acquire a connection from a pool, nothing was sent.
func (s *Store) connection(ctx context.Context) (DB, func(), error) {
	pool, ok := s.db.(*pgxpool.Pool)
	if !ok {
		return s.db, func() {}, nil
	}
	conn, err := pool.Acquire(ctx)
	switch {
	case err != nil && isPoolClosed(err): // no retry can help
		return nil, nil, storage.NotApplied(fmt.Errorf("postgres: %w", err))
	case err != nil:
		return nil, nil, storage.NotApplied(fmt.Errorf("postgres: %w: cannot get a connection from the pool: %w", storage.ErrUnavailable, err))
	case !begin(ctx):
		conn.Release()
		return nil, nil, storage.NotApplied(storage.ErrUnavailable) // nobody reads it
	}
	return conn, conn.Release, nil
}

// collect sends a statement on a connection of the pool and reads the rows of the reply.
func collect[T any](ctx context.Context, s *Store, sql string, args ...any) ([]T, error) {
	db, release, err := s.connection(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return collectOn[T](ctx, s, db, sql, args...)
}

// collectOn sends a statement on db and reads the rows of the reply. If a pooler has lost the prepared statement, nothing was
// executed, and collectOn sends it again unprepared. In a transaction of the caller, that cannot help after the error.
func collectOn[T any](ctx context.Context, s *Store, db DB, sql string, args ...any) ([]T, error) {
	unprepared := s.unprepared.Load()
	for {
		var all []T
		rows, err := db.Query(ctx, sql, withMode(unprepared, args)...)
		if err == nil {
			all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
		}
		switch {
		case err == nil:
			return all, nil
		case unprepared || s.inTransaction() || !isPreparedElsewhere(err):
			if conn, ok := db.(*pgxpool.Conn); ok {
				s.closeReadOnly(ctx, conn, err)
			}
			return nil, s.failure(db, err)
		}
		unprepared = true
		s.unprepared.Store(true)
	}
}

// closeReadOnly closes a connection of the pool if its server is read-only. The next connection may reach the new primary.
func (s *Store) closeReadOnly(ctx context.Context, db interface{ Conn() *pgx.Conn }, err error) {
	if _, isPool := s.db.(*pgxpool.Pool); isPool && isReadOnly(err) {
		_ = db.Conn().Close(ctx)
	}
}

// withMode returns the arguments of a statement for pgx. If unprepared is true, pgx neither prepares
// the statement nor uses a prepared one.
func withMode(unprepared bool, args []any) []any {
	if unprepared {
		return append([]any{pgx.QueryExecModeExec}, args...)
	}
	return args
}

// detached is driver.Detached for a pool. If ctx ends before there is a connection, the statement is never sent. A connection
// or a transaction of the caller must be used by its goroutine.
func detached[T any](ctx context.Context, s *Store, do func(ctx context.Context) ([]T, error)) ([]T, error) {
	if _, ok := s.db.(*pgxpool.Pool); !ok {
		return do(ctx)
	}
	trip := new(atomic.Bool)
	rows, err := driver.Detached(context.WithValue(ctx, tripKey{}, trip), do)
	if err != nil && err == ctx.Err() {
		err = fmt.Errorf("postgres: %w: %w", storage.ErrUnavailable, err)
		if trip.CompareAndSwap(false, true) {
			err = storage.NotApplied(err)
		}
	}
	return rows, err
}

// untilDeadline is detached for a round trip that goes on until the deadline of ctx, even if ctx is cancelled before. If the deadline
// is far enough, it needs no goroutine, which takes a tenth of the time of a lone decision.
func untilDeadline[T any](ctx context.Context, s *Store, do func(ctx context.Context) ([]T, error)) ([]T, error) {
	deadline, ok := ctx.Deadline()
	if !ok || driver.MayCutConnection(ctx) {
		return detached(ctx, s, do)
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	return do(ctx)
}

// tripKey is the key of an *atomic.Bool in the context of a detached round trip. Either the round trip sets it and then sends its
// statement, or its caller sets it and leaves.
type tripKey struct{}

// begin reports whether a statement may be sent. It returns false if the caller of a detached round trip has gone.
func begin(ctx context.Context) bool {
	trip, ok := ctx.Value(tripKey{}).(*atomic.Bool)
	return !ok || trip.CompareAndSwap(false, true)
}

// lockTimeoutUntil returns the lock timeout that ends shortly before the deadline of ctx. It is 0 if there is no deadline.
func lockTimeoutUntil(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	left := time.Until(deadline)
	return max(left-min(left/4, maxReserve), time.Millisecond)
}

const (
	// maxReserve is the maximum time between a lock timeout and the deadline. The server's reply needs it.
	maxReserve = 100 * time.Millisecond
	// batchLockTimeout is the lock timeout of a batch. Other decisions lock a key for some milliseconds, but a longer
	// transaction on one key must not delay the requests for others. So the batch is then split into parts without common
	// keys.
	batchLockTimeout = 250 * time.Millisecond
	// splitLockTimeout is the lock timeout of each part, which has waited already.
	splitLockTimeout = time.Millisecond
)

// send sends a statement whose last argument is its lock timeout in milliseconds, which send sets. In a transaction of the caller
// it uses a savepoint if the statement may fail, and no lock timeout, which would apply to the whole transaction.
//
// Otherwise the lock timeout ends shortly before the deadline of ctx, or is lockTimeout if that is not 0 and shorter. The
// server accepts 1 to MaxInt32 milliseconds.
func send[T any](ctx context.Context, s *Store, sql string, args []any, lockTimeout time.Duration, mayFail bool) (rows []T, err error) {
	db, release, err := s.connection(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	tx, inTransaction := db.(pgx.Tx)
	if until := lockTimeoutUntil(ctx); inTransaction {
		lockTimeout = 0
	} else if until > 0 {
		lockTimeout = min(until, cmp.Or(lockTimeout, until), math.MaxInt32*time.Millisecond)
	}
	args[len(args)-1] = int32(lockTimeout.Milliseconds())
	if !inTransaction || !mayFail {
		return collectOn[T](ctx, s, db, sql, args...)
	}
	var sent error
	err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		rows, sent = collectOn[T](ctx, s, savepoint, sql, args...)
		return sent
	})
	if err != nil && sent == nil {
		err = s.failure(tx, err)
	}
	return rows, err
}

// row is a row of a reply: one key.
type row struct {
	Place   int64  // of the key, from 1
	Version *int64 // of the stored record; nil if there is none
	State   []byte // in hexadecimal, because pgx cannot read bytea_output=escape
	Created bool   // another transaction created the key, so the statement did nothing with it
	At      int64  // the time in microseconds since 1970
	TTL     int64  // of the stored record in microseconds, if the statement reads it
}

// record returns the stored record. It decodes the state in place.
func (r *row) record() storage.Record {
	if r.Version == nil {
		return storage.Record{}
	}
	n, _ := hex.Decode(r.State, r.State) // the server has encoded it
	return storage.Record{Version: storage.Version(*r.Version), State: r.State[:n], TTL: time.Duration(r.TTL) * time.Microsecond}
}
