package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/program"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// DefaultTable is the default of [Options.Table].
const DefaultTable = "sluice_states"

// maxNameLen is the maximum length of a name in PostgreSQL, in bytes.
const maxNameLen = 63

// Options configure a [Store]. The zero value is valid.
type Options struct {
	// Schema is where the table is. Empty means that of search_path.
	Schema string
	// Table is the name of the table. Empty means DefaultTable.
	Table string
	// Unlogged makes Migrate create an unlogged table: faster, but empty after a crash of the server.
	Unlogged bool
	// NoFunctions makes this process decide, in two round trips or more. Set it if functions must not be created.
	NoFunctions bool
	// Programs are those of your own algorithms, for which Migrate creates functions. Their Args have no effect.
	Programs []algo.Program
}

// DB is a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx. Only one goroutine at a time may use a Conn or Tx. In a transaction pass the
// Tx, not the Conn.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Store implements [storage.Store] and [driver.Server] in a table. It is safe for concurrent use if its DB is.
type Store struct {
	db               DB
	options          Options
	sql              statements
	functions        *program.Functions // nil with NoFunctions
	allFunctions     []program.Function // functions.All and those of statements
	batchLockTimeout time.Duration      // the constant, except in tests
	unprepared       atomic.Bool        // a pooler has lost a prepared statement, so the store prepares none any more
}

var (
	_ driver.Server  = (*Store)(nil)
	_ storage.Purger = (*Store)(nil)
	_ storage.Lister = (*Store)(nil)
)

// New returns a store that uses db, without a ping. Call [Store.Migrate] before the first use.
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
	s := &Store{db: db, options: o, batchLockTimeout: batchLockTimeout}
	if !o.NoFunctions {
		f, err := standardFunctions()
		if len(o.Programs) > 0 {
			f, err = program.SQL(append(standardPrograms(), o.Programs...)...)
		}
		if err != nil {
			return nil, fmt.Errorf("postgres: Programs: %w", err)
		}
		s.functions = f
	}
	s.sql, s.allFunctions = newStatements(o, s.functions)
	return s, nil
}

// standardFunctions returns the functions for the algorithms of this module.
var standardFunctions = sync.OnceValues(func() (*program.Functions, error) { return program.SQL(standardPrograms()...) })

func (s *Store) Load(ctx context.Context, keys ...string) (records []storage.Record, now time.Time, err error) {
	if len(keys) == 0 {
		return nil, now, ctx.Err()
	}
	if err := driver.CheckLoad(keys); err != nil {
		return nil, now, err
	}
	names := make([][]byte, len(keys))
	for i, key := range keys {
		names[i] = []byte(key)
	}
	rows, err := detached(ctx, s, func(ctx context.Context) ([]row, error) { return collect[row](ctx, s, s.sql.load, names) })
	if err != nil {
		return nil, time.Time{}, err
	}
	records = make([]storage.Record, len(keys))
	for i := range rows {
		if r := &rows[i]; r.Place > 0 {
			records[r.Place-1] = r.record()
		} else {
			now = time.UnixMicro(r.At)
		}
	}
	return records, now, nil
}

func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	keys, err := driver.BeginSwap(ctx, swaps)
	if err != nil || len(swaps) == 0 {
		return nil, err == nil, err
	}
	sorted := order(keys)
	// The statement fails if another transaction creates one of several keys.
	mayFail := len(swaps) > 1 && slices.ContainsFunc(swaps, func(s storage.Swap) bool { return s.Old == 0 })
	args := swapArgs(swaps, sorted) // copies, because a round trip can go on when the call has returned
	for range maxAttempts {
		lockTimeout := lockTimeoutUntil(ctx)
		rows, err := detached(ctx, s, func(ctx context.Context) ([]row, error) {
			return send[row](ctx, s, s.sql.swap, args, lockTimeout, mayFail)
		})
		if deadline, ok := ctx.Deadline(); ok && errors.Is(err, storage.ErrContended) && time.Until(deadline) <= maxReserve {
			<-ctx.Done() // the time that is left is too short for another attempt
		}
		created := errors.Is(err, errCreated) || len(rows) > 0 && rows[0].Created
		if !created && (err != nil || len(rows) == 0) {
			return nil, err == nil, err
		}
		current, mustLoad := make([]storage.Record, len(swaps)), created
		for i := range rows {
			at, record := sorted[rows[i].Place-1], rows[i].record()
			current[at] = record
			mustLoad = mustLoad || record.Version == 0 && swaps[at].Old != 0 // it expired, or a policy hides the row from updates
		}
		if mustLoad {
			if current, _, err = s.Load(ctx, keys...); err != nil {
				return nil, false, storage.NotApplied(err)
			}
		}
		for i := range swaps {
			if current[i].Version != swaps[i].Old {
				return current, false, nil
			}
		}
	}
	return nil, false, storage.NotApplied(errUnwritten) // all versions match, but the statement never wrote the rows
}

// swapArgs returns the arguments of the statement, columns in the order sorted: key, old version, new version, state, and TTL in
// microseconds (0: never expires; -1: deleted, which is written as expired). send sets the last argument.
func swapArgs(swaps []storage.Swap, sorted []int) []any {
	n := len(swaps)
	olds, news, ttls := make([]int64, n), make([]int64, n), make([]int64, n)
	keys, states := make([][]byte, n), make([][]byte, n)
	for i, at := range sorted {
		s := &swaps[at]
		keys[i], olds[i], news[i], states[i] = []byte(s.Key), int64(s.Old), int64(s.New.Version), append([]byte{}, s.New.State...) // nil would be NULL
		switch {
		case s.New.Version == 0:
			ttls[i] = -1
		case s.TTL > 0:
			ttls[i] = int64((s.TTL-1)/time.Microsecond) + 1
		}
	}
	return []any{keys, olds, news, states, ttls, nil}
}

// inTransaction reports whether the store uses a transaction of the caller.
func (s *Store) inTransaction() bool {
	_, ok := s.db.(pgx.Tx)
	return ok
}

// purgeBatch is how many records a statement of Purge handles. It locks them for some milliseconds.
const purgeBatch = 200

// Purge implements [storage.Purger]. It locks 200 records at a time, in your own transaction until its end, and skips locked
// records.
func (s *Store) Purge(ctx context.Context, max int) (removed int, err error) {
	if max <= 0 {
		return 0, ctx.Err()
	}
	var now *time.Time // the time of the first statement; otherwise new due records might keep Purge running for ever
	for removed < max {
		rows, err := collect[purgeRow](ctx, s, s.sql.purge, purgeBatch, max-removed, now)
		if err != nil {
			return removed, err
		}
		batch := rows[0]
		isBlocked := batch.Left > 0 && batch.Removed < max-removed
		if removed += batch.Removed; isBlocked {
			return removed, errUnpurged
		}
		if batch.Due < purgeBatch {
			return removed, nil
		}
		at := time.UnixMicro(batch.Now)
		now = &at
	}
	return removed, nil
}

// purgeRow is the reply to a statement of Purge: how many records were due, how many of them were
// removed, the time in microseconds, and how many of them are still due.
type purgeRow struct {
	Due, Removed int
	Now          int64
	Left         int
}

// List implements [storage.Lister], in the order of the bytes of keys.
func (s *Store) List(ctx context.Context, prefix, cursor string, max int) (keys []string, next string, err error) {
	if err := driver.BeginList(ctx, max); err != nil {
		return nil, "", err
	}
	first, last := driver.ListRange(prefix, cursor)
	rows, err := detached(ctx, s, func(ctx context.Context) ([]listRow, error) {
		return collect[listRow](ctx, s, s.sql.list, [][]byte{[]byte(first), []byte(last)}, max)
	})
	if err != nil {
		return nil, "", err
	}
	key := ""
	for _, r := range rows {
		text, _ := hex.DecodeString(r.Key) // the server has encoded it
		if key = string(text); r.IsLive {
			keys = append(keys, key)
		}
	}
	if len(rows) == max {
		next = driver.CursorAfter(key)
	}
	return keys, next, nil
}

// listRow has a key in hexadecimal.
type listRow struct {
	Key    string
	IsLive bool
}
