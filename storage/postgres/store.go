package postgres

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/program"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
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
	// NoFunctions keeps Migrate from creating functions, for databases where that is forbidden.
	// Then the steps of policies run in this process: a decision takes two round trips or more.
	NoFunctions bool
	// Programs are those that the database can run beside the programs of this module's
	// algorithms. All processes that share the table may have different ones.
	Programs []algo.Program
}

// DB is what a store needs of a database: a *pgxpool.Pool, a *pgx.Conn that is
// used by one goroutine, or a pgx.Tx. A Conn must not be in a transaction: the store would take each of its
// statements for a transaction of its own. Pass the pgx.Tx instead.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Store keeps records in a table. It is as safe for concurrent use as its DB
// is.
type Store struct {
	db               DB
	options          Options
	sql              statements
	functions        *program.Functions // nil: none
	batchLockTimeout time.Duration      // of requests that share a statement
}

var _ driver.MaxRoundTrips = (*Store)(nil)

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
		if strings.ContainsRune(name, 0) || len(name) > longestName || strings.Contains(name, "$sluice") {
			return nil, fmt.Errorf("postgres: the name of a schema or table has at most 63 bytes and no NUL or $sluice, got %q", name)
		}
	}
	f, err := o.functions()
	if err != nil {
		return nil, fmt.Errorf("postgres: Programs: %w", err)
	}
	return &Store{db: db, options: o, sql: newStatements(o, f), functions: f, batchLockTimeout: batchLockTimeout}, nil
}

// standard are the functions for the algorithms of this module.
var standard = sync.OnceValues(func() (*program.Functions, error) { return program.SQL(program.Standard()...) })

func (o Options) functions() (*program.Functions, error) {
	switch {
	case o.NoFunctions:
		return nil, nil
	case len(o.Programs) == 0:
		return standard()
	}
	return program.SQL(append(program.Standard(), o.Programs...)...)
}

// Load implements [storage.Store].
func (s *Store) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if err := driver.CheckLoad(keys); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	all, err := collect(ctx, s, readFound, s.sql.load, bytesOf(keys))
	if err != nil {
		return nil, err
	}
	return recordsOf(len(keys), all), nil
}

// LoadNow implements [driver.ServerTime]. It is [Store.Load], and also returns the server's clock_timestamp(), by which the records have
// not expired.
func (s *Store) LoadNow(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	if err := driver.CheckLoad(keys); err != nil {
		return nil, time.Time{}, err
	}
	var now time.Time
	all, err := collect(ctx, s, func(row pgx.CollectableRow) (found, error) {
		return readFoundAt(row, &now)
	}, s.sql.loadNow, bytesOf(keys))
	if err != nil {
		return nil, time.Time{}, err
	}
	return recordsOf(len(keys), all), now, nil
}

func bytesOf(keys []string) [][]byte {
	all := make([][]byte, len(keys))
	for i, key := range keys {
		all[i] = []byte(key)
	}
	return all
}

// recordsOf returns what was found under n keys. The place 0 is no key.
func recordsOf(n int, all []found) []storage.Record {
	records := make([]storage.Record, n)
	for _, f := range all {
		if f.place > 0 {
			records[f.place-1] = f.record
		}
	}
	return records
}

// MaxRoundTrips implements [driver.MaxRoundTrips]. Commits that are under way together share
// a flush of the log. A connection or transaction of the caller must be used by its goroutine.
func (s *Store) MaxRoundTrips() int {
	if pool, ok := s.db.(*pgxpool.Pool); ok {
		return min(inFlight, int(pool.Config().MaxConns))
	}
	return 0
}

// inFlight is so few because with more, requests that could share a statement would each
// have one.
const inFlight = 2

// inside reports whether the database is a transaction of the caller.
func (s *Store) inside() bool {
	_, ok := s.db.(pgx.Tx)
	return ok
}

// closedPool is the text of puddle.ErrClosedPool, which Acquire returns after Close.
// pgxpool does not export that error, and an import of puddle would make it a direct
// requirement of this module.
const closedPool = "closed pool"

// connection is what to send statements on. From a pool a connection is acquired first,
// because if that fails nothing was sent.
func (s *Store) connection(ctx context.Context) (DB, func(), error) {
	pool, ok := s.db.(*pgxpool.Pool)
	if !ok {
		return s.db, func() {}, nil
	}
	conn, err := pool.Acquire(ctx)
	switch {
	case err != nil && err.Error() == closedPool: // for good, and so no outage
		return nil, nil, storage.NotApplied(fmt.Errorf("postgres: %w", err))
	case err != nil:
		return nil, nil, storage.NotApplied(fmt.Errorf("postgres: %w: %w", storage.ErrUnavailable, err))
	}
	return conn, conn.Release, nil
}
