package postgres

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"

	"github.com/sluice-go/sluice/storage"
)

// DefaultTable is the table's name when the options do not say.
const DefaultTable = "sluice_states"

// longestName is how long PostgreSQL lets a name be, in bytes.
const longestName = 63

// Options configure a [Store]. The zero value is ready.
type Options struct {
	// Schema is the schema of the table; empty means that search_path finds it.
	Schema string
	// Table is the name of the table; empty means DefaultTable. Stores with
	// different tables do not meet.
	Table string
	// Unlogged makes Migrate create a table that is not written to the log:
	// faster, and empty after a crash.
	Unlogged bool
}

// DB is what a store needs of a database: a *pgxpool.Pool, a *pgx.Conn that is
// used by one goroutine, or a pgx.Tx.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Store keeps records in a table. It is as safe for concurrent use as its DB
// is.
type Store struct {
	db       DB
	options  Options
	sql      statements
	patience time.Duration // of groups that share a statement
}

var _ storage.Clock = (*Store)(nil)

// New makes a store on db, which it neither pings nor closes. The table must be
// there before the first call: see [Store.Migrate].
func New(db DB, o Options) (*Store, error) {
	if v := reflect.ValueOf(db); db == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("postgres: the database must not be nil")
	}
	if o.Table == "" {
		o.Table = DefaultTable
	}
	for _, name := range [...]string{o.Schema, o.Table} {
		if strings.ContainsRune(name, 0) || len(name) > longestName {
			return nil, fmt.Errorf("postgres: the name of a schema or table has at most 63 bytes and no NUL, got %q", name)
		}
	}
	return &Store{db: db, options: o, sql: newStatements(o), patience: sharedPatience}, nil
}

// Load implements [storage.Store].
func (s *Store) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if err := storage.CheckLoad(keys); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	names := make([][]byte, len(keys))
	for i, key := range keys {
		names[i] = []byte(key)
	}
	all, err := collect(ctx, s, readFound, s.sql.load, names)
	if err != nil {
		return nil, err
	}
	records := make([]storage.Record, len(keys))
	for _, f := range all {
		records[f.place-1] = f.record
	}
	return records, nil
}

// CompareAndSwap implements [storage.Store].
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	o := s.CompareAndSwapBatch(ctx, swaps)[0]
	return o.Current, o.Swapped, o.Err
}

// CompareAndSwapBatch implements [storage.Batcher]: the groups share one
// statement.
func (s *Store) CompareAndSwapBatch(ctx context.Context, groups ...[]storage.Swap) []storage.Outcome {
	outcomes, open := storage.BeginBatch(ctx, groups)
	if len(open) == 0 {
		return outcomes
	}
	w := newWrite(groups, outcomes, open)
	if len(open) > 1 {
		w.patience = s.patience
	}
	s.try(ctx, w)
	return outcomes
}

// inside reports whether the database is a transaction of the caller.
func (s *Store) inside() bool {
	_, ok := s.db.(pgx.Tx)
	return ok
}

// connection is what to send statements on. From a pool a connection is acquired first,
// because if that fails nothing was sent.
func (s *Store) connection(ctx context.Context) (DB, func(), error) {
	pool, ok := s.db.(*pgxpool.Pool)
	if !ok {
		return s.db, func() {}, nil
	}
	conn, err := pool.Acquire(ctx)
	switch {
	case errors.Is(err, puddle.ErrClosedPool): // for good, and so no outage
		return nil, nil, storage.NotApplied(fmt.Errorf("postgres: %w", err))
	case err != nil:
		return nil, nil, storage.NotApplied(fmt.Errorf("postgres: %w: %w", storage.ErrUnavailable, err))
	}
	return conn, conn.Release, nil
}

// Now implements [storage.Clock] with the server's clock_timestamp().
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	times, err := collect(ctx, s, pgx.RowTo[time.Time], "SELECT clock_timestamp()")
	if err != nil {
		return time.Time{}, err
	}
	return times[0], nil
}
