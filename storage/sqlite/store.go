package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sluice-go/sluice/internal/retrywait"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// DefaultTable is the default of Options.Table.
const DefaultTable = "sluice_states"

// Options configures a [Store]. The zero value is valid.
type Options struct {
	// Table is the name of the table. Empty means DefaultTable. SQLite ignores the case of ASCII letters.
	Table string
	// Clock is the clock by which records expire. nil means time.Now. If a limiter has a clock, set the same one here.
	Clock func() time.Time
}

// Store implements [storage.Store] and [driver.Transactor] in a table. It is safe for concurrent use.
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
	_ storage.Lister    = (*Store)(nil)
)

// New returns a store that uses db. It does not connect. Call [Store.Migrate] before the first use.
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
	var (
		version int64 // package database/sql stores no negative number in a storage.Version
		state   []byte
		expires sql.NullInt64
	)
	records := make([]storage.Record, len(keys))
	for i, key := range keys {
		found, err := c.query(s.sql.load, []any{[]byte(key), now}, &version, &state, &expires)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		r := &records[i]
		r.Version, r.State = storage.Version(version), state // the next query makes a new state
		if expires.Valid {                                   // otherwise the record is kept for ever
			r.TTL = time.Duration(expires.Int64 - now)
		}
	}
	return records, nil
}

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

// write applies swaps whose Old is the stored version. It fails if a trigger drops one of the writes.
func (s *Store) write(c *connection, swaps []storage.Swap, now int64) error {
	for i := range swaps {
		w := &swaps[i]
		if w.Old == 0 && w.New.Version == 0 {
			continue
		}
		n, err := s.writeRow(c, w, now)
		if err == nil && n != 1 {
			err = &storage.KeyError{Key: w.Key, Err: fmt.Errorf("a record was not written; check whether table %s has a trigger that drops writes", s.table)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeRow applies a swap and returns the number of rows that it changed.
func (s *Store) writeRow(c *connection, w *storage.Swap, now int64) (rows int64, err error) {
	key, old, version := []byte(w.Key), int64(w.Old), int64(w.New.Version)
	if version == 0 {
		return c.exec(s.sql.remove, key, old, now)
	}
	state, expires := w.New.State, any(nil)
	if state == nil { // nil would be stored as NULL
		state = []byte{}
	}
	if ttl := int64(w.TTL); ttl > 0 && ttl <= math.MaxInt64-now {
		expires = now + ttl
	}
	if old == 0 {
		return c.exec(s.sql.create, key, version, state, expires, now)
	}
	rows, err = c.exec(s.sql.replace, version, state, expires, key, old, now)
	if rows == 0 && err == nil { // the record expires before its purge_at
		rows, err = c.exec(s.sql.replaceSooner, version, state, expires, key, old, now)
	}
	return rows, err
}

// purgeBatch is the maximum number of records that a transaction of Purge handles. On most disks, such a
// transaction holds the write lock for a few milliseconds at most.
const purgeBatch = 200

// Purge implements [storage.Purger]. It deletes up to 200 records in a transaction, and waits for the write lock as long as
// [Store.Migrate].
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
					isBlocked, err = c.query(s.sql.due, []any{now}, new(int))
				}
				return err
			})
		})
		if err != nil {
			return removed, err
		}
		removed += int(expired)
		if isBlocked {
			return removed, fmt.Errorf("sqlite: expired records were not removed; check whether table %s has a trigger that drops writes", s.table)
		}
		if expired+postponed < purgeBatch {
			return removed, nil
		}
		retrywait.Pause(ctx, max(time.Since(began), 2*maxBackoff)) // writers retry after maxBackoff at most
	}
	return removed, nil
}

// List implements [storage.Lister], in the order of the bytes of keys.
func (s *Store) List(ctx context.Context, prefix, cursor string, max int) (keys []string, next string, err error) {
	if err := driver.BeginList(ctx, max); err != nil {
		return nil, "", err
	}
	first, last := driver.ListRange(prefix, cursor)
	err = s.withConnection(ctx, func(c *connection) error {
		return retryBusy(ctx, c.busyTimeout, func() (err error) {
			keys, next, err = c.list(s.sql.list, first, last, s.now(), max)
			return err
		})
	})
	return keys, next, err
}
