package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// DefaultTable is the table's name when the options do not say.
const DefaultTable = "sluice_states"

// Options configure a [Store]. The zero value is ready.
type Options struct {
	// Table is the name of the table; empty means DefaultTable. Stores with
	// different tables do not meet. To SQLite "Limits" and "limits" are one table:
	// ASCII letters are alike in either case.
	Table string
	// Clock tells the time that records expire by; nil is time.Now. A limiter
	// with a clock of its own wants the same one here.
	Clock func() time.Time
}

// Store keeps records in a table. It is safe for concurrent use.
type Store struct {
	db    *sql.DB
	table string
	clock func() time.Time
	sql   statements
}

var _ storage.Parallel = (*Store)(nil)

// New makes a store on db, which it neither pings nor closes. The table must be
// there before the first call: see [Store.Migrate].
func New(db *sql.DB, o Options) (*Store, error) {
	if db == nil {
		return nil, errors.New("sqlite: the database must not be nil")
	}
	if strings.ContainsRune(o.Table, 0) {
		return nil, fmt.Errorf("sqlite: Table must not contain NUL, got %q", o.Table)
	}
	if o.Table == "" {
		o.Table = DefaultTable
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Store{db: db, table: o.Table, clock: o.Clock, sql: newStatements(o.Table)}, nil
}

func (s *Store) now() int64 { return s.clock().UnixNano() }

// Load implements [storage.Store].
func (s *Store) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if err := storage.CheckLoad(keys); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	var records []storage.Record
	err := s.connect(ctx, func(c *connection) (err error) {
		records, err = s.read(ctx, c, keys)
		return err
	})
	return records, err
}

// read is load, patiently: without WAL those who read wait for a commit.
func (s *Store) read(ctx context.Context, c *connection, keys []string) (records []storage.Record, err error) {
	err = c.patiently(ctx, func() (err error) {
		records, err = s.load(c, keys)
		return err
	})
	return records, failure(err)
}

func (s *Store) load(c *connection, keys []string) ([]storage.Record, error) {
	records := make([]storage.Record, len(keys))
	row := make([]driver.Value, 2)
	for i, key := range keys {
		found, err := c.query(row, s.sql.load, []byte(key), s.now())
		if err != nil {
			return nil, err
		}
		if found {
			if records[i], err = record(row); err != nil {
				return nil, err
			}
		}
	}
	return records, nil
}

// record is what a row holds, apart from the driver's memory.
func record(row []driver.Value) (storage.Record, error) {
	version, isVersion := row[0].(int64)
	state, isState := row[1].([]byte)
	if !isVersion || !isState {
		return storage.Record{}, fmt.Errorf("the version of a record is a %T, its state a %T", row[0], row[1])
	}
	return storage.Record{Version: storage.Version(version), State: append([]byte{}, state...)}, nil
}

// CompareAndSwap implements [storage.Store].
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	o := s.CompareAndSwapBatch(ctx, swaps)[0]
	return o.Current, o.Swapped, o.Err
}

// InFlight implements [storage.Parallel]: SQLite has one writer at a time.
func (s *Store) InFlight() int { return 1 }

// CompareAndSwapBatch implements [storage.Batcher]: the groups share one
// transaction.
func (s *Store) CompareAndSwapBatch(ctx context.Context, groups ...[]storage.Swap) []storage.Outcome {
	b := &batch{groups: groups}
	b.outcomes, b.open = storage.BeginBatch(ctx, groups)
	if len(b.open) > 0 {
		if err := s.write(ctx, b); err != nil {
			b.fail(err)
		}
	}
	return b.outcomes
}
