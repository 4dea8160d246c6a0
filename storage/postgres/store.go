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

// DefaultTable is the name of the table if [Options.Table] is empty.
const DefaultTable = "sluice_states"

// maxNameLen is the maximum length of a name in PostgreSQL, in bytes.
const maxNameLen = 63

// Options configure a [Store]. The zero value is valid.
type Options struct {
	// Schema is the schema of the table. If it is empty, PostgreSQL searches search_path.
	Schema string
	// Table is the name of the table. Empty means DefaultTable. Stores with different tables share no
	// records.
	Table string
	// Unlogged makes Migrate create an unlogged table. It is faster, but a crash of the server
	// empties it.
	Unlogged bool
	// NoFunctions is for databases where functions must not be created. Then the steps of policies
	// run in this process, and a decision takes two round trips or more.
	NoFunctions bool
	// Programs are further programs that the database can run. It can always run those of this
	// module's algorithms. Processes that share a table may have different Programs.
	Programs []algo.Program
}

// DB is a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx. A Conn or Tx must be used by one goroutine at a
// time. A Conn must not be in a transaction, because the store assumes that each statement commits. Pass
// the pgx.Tx instead.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Store keeps records in a table. It is safe for concurrent use if its DB is.
type Store struct {
	db               DB
	options          Options
	sql              statements
	functions        *program.Functions // nil with NoFunctions
	batchLockTimeout time.Duration      // the constant, except in tests
}

var _ driver.MaxRoundTrips = (*Store)(nil)

// New returns a store that uses db. It neither pings nor closes db. The table must exist before the
// first call: see [Store.Migrate].
func New(db DB, o Options) (*Store, error) {
	if v := reflect.ValueOf(db); db == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("postgres: the database must not be nil")
	}
	if o.Table == "" {
		o.Table = DefaultTable
	}
	for _, name := range [...]string{o.Schema, o.Table} {
		if strings.ContainsRune(name, 0) || len(name) > maxNameLen || strings.Contains(name, "$sluice") {
			return nil, fmt.Errorf("postgres: the name of a schema or table must have at most 63 bytes and must not contain NUL or $sluice, got %q", name)
		}
	}
	f, err := o.functions()
	if err != nil {
		return nil, fmt.Errorf("postgres: Programs: %w", err)
	}
	return &Store{db: db, options: o, sql: newStatements(o, f), functions: f, batchLockTimeout: batchLockTimeout}, nil
}

// standard returns the functions for the algorithms of this module.
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
	rows, err := collect(ctx, s, func(row pgx.CollectableRow) (loadedRow, error) {
		return readLoaded(row)
	}, s.sql.load, bytesOf(keys))
	if err != nil {
		return nil, err
	}
	return recordsOf(len(keys), rows), nil
}

// LoadNow implements [driver.ServerTime]. It is [Store.Load] and also returns the server's
// clock_timestamp(). The returned records have not expired at this time.
func (s *Store) LoadNow(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	if err := driver.CheckLoad(keys); err != nil {
		return nil, time.Time{}, err
	}
	var now time.Time
	rows, err := collect(ctx, s, func(row pgx.CollectableRow) (loadedRow, error) {
		return readLoaded(row, &now)
	}, s.sql.loadNow, bytesOf(keys))
	if err != nil {
		return nil, time.Time{}, err
	}
	return recordsOf(len(keys), rows), now, nil
}

func bytesOf(keys []string) [][]byte {
	all := make([][]byte, len(keys))
	for i, key := range keys {
		all[i] = []byte(key)
	}
	return all
}

// recordsOf returns the records of n keys. A row with the place 0 has no record.
func recordsOf(n int, rows []loadedRow) []storage.Record {
	records := make([]storage.Record, n)
	for _, row := range rows {
		if row.place > 0 {
			records[row.place-1] = row.record
		}
	}
	return records
}

// MaxRoundTrips implements [driver.MaxRoundTrips]. It is 0 for a connection or a transaction, because
// only the caller's goroutine may use it. A pool gains by a second round trip, because concurrent
// commits share a flush of the log.
func (s *Store) MaxRoundTrips() int {
	if pool, ok := s.db.(*pgxpool.Pool); ok {
		return min(maxRoundTrips, int(pool.Config().MaxConns))
	}
	return 0
}

// maxRoundTrips is small because with more round trips fewer requests share a statement.
const maxRoundTrips = 2

// inTransaction reports whether the store uses a transaction of the caller.
func (s *Store) inTransaction() bool {
	_, ok := s.db.(pgx.Tx)
	return ok
}

// closedPool is the text of puddle.ErrClosedPool, which Acquire returns after Close. pgxpool does not
// export this error, and an import of puddle would be a direct requirement of this module.
const closedPool = "closed pool"

// connection returns the connection or the transaction for a statement, and a function to release it.
// It acquires a connection from a pool before the statement, so that an error means that nothing was
// sent.
func (s *Store) connection(ctx context.Context) (DB, func(), error) {
	pool, ok := s.db.(*pgxpool.Pool)
	if !ok {
		return s.db, func() {}, nil
	}
	conn, err := pool.Acquire(ctx)
	switch {
	case err != nil && err.Error() == closedPool: // no retry can help
		return nil, nil, storage.NotApplied(fmt.Errorf("postgres: %w", err))
	case err != nil:
		return nil, nil, storage.NotApplied(fmt.Errorf("postgres: %w: %w", storage.ErrUnavailable, err))
	}
	return conn, conn.Release, nil
}
