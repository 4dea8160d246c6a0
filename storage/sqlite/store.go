package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
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
	idle  idle
}

var (
	_ driver.Transactor    = (*Store)(nil)
	_ driver.MaxRoundTrips = (*Store)(nil)
)

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
	return &Store{db: db, table: o.Table, clock: o.Clock, sql: newStatements(o.Table), idle: idle{db: db}}, nil
}

func (s *Store) now() int64 { return s.clock().UnixNano() }

// Load implements [storage.Store].
func (s *Store) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if err := driver.CheckLoad(keys); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	var records []storage.Record
	err := s.lend(ctx, func(c *connection) error {
		return c.raw(func() error {
			return failure(c.retryBusy(ctx, func() (err error) { // without WAL, a reader waits for a commit
				records, err = s.load(c, keys, s.now())
				return err
			}))
		})
	})
	return records, err
}

func (s *Store) load(c *connection, keys []string, now int64) ([]storage.Record, error) {
	records := make([]storage.Record, len(keys))
	row := make([]sqldriver.Value, 2)
	for i, key := range keys {
		var err error
		if records[i], err = s.loadKey(c, row, key, now); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// loadKey loads one record; row is memory for two values.
func (s *Store) loadKey(c *connection, row []sqldriver.Value, key string, now int64) (storage.Record, error) {
	found, err := c.query(row, s.sql.load, []byte(key), now)
	if err != nil || !found {
		return storage.Record{}, err
	}
	return record(row)
}

// record is what a row holds, apart from the driver's memory.
func record(row []sqldriver.Value) (storage.Record, error) {
	version, isVersion := row[0].(int64)
	state, isState := row[1].([]byte)
	if !isVersion || !isState {
		return storage.Record{}, fmt.Errorf("the version of a record is a %T, its state a %T", row[0], row[1])
	}
	return storage.Record{Version: storage.Version(version), State: append([]byte{}, state...)}, nil
}

// CompareAndSwap implements [storage.Store].
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	if err := driver.Check(swaps); err != nil {
		return nil, false, err
	}
	if err := ctx.Err(); err != nil {
		return nil, false, storage.NotApplied(err)
	}
	if len(swaps) == 0 {
		return nil, true, nil
	}
	err = s.transaction(ctx, func(c *connection) (err error) {
		now := s.now() // which may panic, and so is read outside raw
		return c.raw(func() error {
			current, err = s.swapAll(c, swaps, now)
			return err
		})
	})
	if err != nil {
		return nil, false, err
	}
	return current, current == nil, nil
}

// MaxRoundTrips implements [driver.MaxRoundTrips]: SQLite has one writer at a time.
func (s *Store) MaxRoundTrips() int { return 1 }
