package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// DefaultTable is the name of the table if Options.Table is empty.
const DefaultTable = "sluice_states"

// Options configures a [Store]. The zero value is valid.
type Options struct {
	// Table is the name of the table. Empty means DefaultTable. Stores with different tables share
	// no keys. SQLite ignores the case of ASCII letters: "Limits" and "limits" are the same table.
	Table string
	// Clock returns the current time. Records expire by this clock. nil means time.Now. If a limiter has
	// its own clock, set the same clock here.
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
	_ driver.Transactor = (*Store)(nil)
	_ storage.Purger    = (*Store)(nil)
)

// New returns a store that uses db. It does not connect to the database, and the store never closes db.
// The table must exist before the first call; see [Store.Migrate].
func New(db *sql.DB, o Options) (*Store, error) {
	if db == nil {
		return nil, errors.New("sqlite: db must not be nil; pass the result of sql.Open")
	}
	if strings.ContainsRune(o.Table, 0) {
		return nil, fmt.Errorf("sqlite: Table must not contain a NUL byte, got %q", o.Table)
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
func (s *Store) Load(ctx context.Context, keys ...string) (records []storage.Record, now time.Time, err error) {
	if err := driver.CheckLoad(keys); err != nil {
		return nil, now, err
	}
	if len(keys) == 0 {
		return nil, now, ctx.Err()
	}
	err = s.withConnection(ctx, func(c *connection) error {
		return retryBusy(ctx, c.busyTimeout, func() (err error) { // without WAL, a reader waits for a commit
			now = s.clock()
			records, err = s.load(c, keys, now.UnixNano())
			return err
		})
	})
	return records, now, err
}

func (s *Store) load(c *connection, keys []string, now int64) ([]storage.Record, error) {
	records, row := make([]storage.Record, len(keys)), make([]sqldriver.Value, 3)
	for i, key := range keys {
		found, err := c.query(row, s.sql.load, []byte(key), now)
		if err == nil && found {
			records[i], err = record(row, now)
		}
		if err != nil {
			return nil, err
		}
	}
	return records, nil
}

// record returns the record of a row at a time, in new memory.
func record(row []sqldriver.Value, now int64) (storage.Record, error) {
	version, isVersion := row[0].(int64)
	state, isState := row[1].([]byte)
	if !isVersion || !isState {
		return storage.Record{}, fmt.Errorf("a record has a version of type %T and a state of type %T instead of int64 and []byte: is this the table of the store?", row[0], row[1])
	}
	r := storage.Record{Version: storage.Version(version), State: append([]byte{}, state...)}
	if expires, ok := row[2].(int64); ok { // otherwise it is kept for ever
		r.TTL = time.Duration(expires - now)
	}
	return r, nil
}

// CompareAndSwap implements [storage.Store].
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	keys, err := driver.BeginSwap(ctx, swaps)
	if err != nil || len(swaps) == 0 {
		return nil, err == nil, err
	}
	err = s.transaction(ctx, func(c *connection) error {
		now := s.now()
		stored, err := s.load(c, keys, now)
		if err != nil {
			return err
		}
		for i := range swaps {
			if stored[i].Version != swaps[i].Old {
				current = stored
				return nil
			}
		}
		return s.write(c, swaps, now)
	})
	if err != nil {
		return nil, false, err
	}
	return current, current == nil, nil
}

// write applies swaps whose Old is the stored version. If a trigger has written anything, it then checks
// that the records are as they were written.
func (s *Store) write(c *connection, swaps []storage.Swap, now int64) error {
	if len(swaps) == 0 {
		return nil
	}
	before, err := c.totalChanges()
	if err != nil {
		return err
	}
	changes := int64(0)
	for i := range swaps {
		w := &swaps[i]
		if w.Old == 0 && w.New.Version == 0 {
			continue
		}
		text, args := s.statement(w, now)
		n, err := c.exec(text, args...)
		if text == s.sql.replace && n == 0 && err == nil { // the record expires before its purge_at
			n, err = c.exec(s.sql.replaceSooner, args...)
		}
		if err == nil && n != 1 {
			err = s.unwritten(w)
		}
		if err != nil {
			return err
		}
		changes += n
	}
	after, err := c.totalChanges()
	if err != nil || after-before == changes {
		return err
	}
	for i := range swaps {
		if err := s.check(c, &swaps[i], now); err != nil {
			return err
		}
	}
	return nil
}

// unwritten returns the error for a swap whose record is not as it was written.
func (s *Store) unwritten(w *storage.Swap) error {
	return &storage.KeyError{Key: w.Key, Err: fmt.Errorf("a record was not written as requested; check whether table %s has a trigger that drops or changes writes", s.table)}
}

// check returns an error if the stored row is not the one that the swap has written.
func (s *Store) check(c *connection, w *storage.Swap, now int64) error {
	row := make([]sqldriver.Value, 3)
	found, err := c.query(row, s.sql.row, []byte(w.Key))
	if err != nil {
		return err
	}
	if w.New.Version == 0 {
		if found {
			err = s.unwritten(w)
		}
		return err
	}
	if state, _ := row[1].([]byte); !found || row[0] != int64(w.New.Version) || !bytes.Equal(state, w.New.State) || row[2] != expiry(w, now) {
		return s.unwritten(w)
	}
	return nil
}

// statement returns the statement that writes one row if Old is the stored version.
func (s *Store) statement(w *storage.Swap, now int64) (text string, args []sqldriver.Value) {
	key, old, version := []byte(w.Key), int64(w.Old), int64(w.New.Version)
	state := w.New.State
	if state == nil { // nil would be stored as NULL
		state = []byte{}
	}
	if version == 0 {
		return s.sql.remove, []sqldriver.Value{key, old, now}
	}
	expires := expiry(w, now)
	if old == 0 {
		return s.sql.create, []sqldriver.Value{key, version, state, expires, now}
	}
	return s.sql.replace, []sqldriver.Value{version, state, expires, key, old, now}
}

// expiry returns the value of the column expires_at. nil means never.
func expiry(w *storage.Swap, now int64) any {
	if ttl := int64(w.Lifetime(time.Unix(0, now))); ttl > 0 && ttl <= math.MaxInt64-now {
		return now + ttl
	}
	return nil
}

// purgeBatch is the maximum number of records that a transaction of Purge handles. On most disks, such a
// transaction holds the write lock for a few milliseconds at most.
const purgeBatch = 200

// Purge removes up to limit records that have expired when Purge begins; see [storage.Purger]. If a
// later write has postponed the expiry of a record, Purge sets its purge_at to the new expiry. A
// transaction of Purge handles at most 200 records. Purge pauses before the next one, so that
// waiting writers get the lock. Purge waits for the lock as long as [Store.Migrate] does.
func (s *Store) Purge(ctx context.Context, limit int) (removed int, err error) {
	if limit <= 0 {
		return 0, ctx.Err()
	}
	now := s.now() // read once: otherwise Purge might never end while more records expire
	for removed < limit {
		began := time.Now()
		var postponed, expired int64
		var isBlocked bool
		err := retryBusy(ctx, minWait, func() error {
			return s.transaction(ctx, func(c *connection) (err error) {
				if postponed, err = c.exec(s.sql.postpone, now, int64(purgeBatch)); err != nil {
					return err
				}
				// Now all records whose purge_at has passed have expired.
				expired, err = c.exec(s.sql.purge, now, min(purgeBatch-postponed, int64(limit-removed)))
				if err == nil && expired+postponed < purgeBatch && expired < int64(limit-removed) { // nothing is due any more
					isBlocked, err = c.query(make([]sqldriver.Value, 1), s.sql.due, now)
				}
				return err
			})
		})
		if err != nil {
			return removed, err
		}
		removed += int(expired)
		if isBlocked {
			return removed, fmt.Errorf("sqlite: expired records were not removed; check whether table %s has a trigger that drops or changes writes", s.table)
		}
		if expired+postponed < purgeBatch {
			return removed, nil
		}
		sleep(ctx, max(time.Since(began), 2*maxBackoff)) // writers retry after maxBackoff at most
	}
	return removed, nil
}
