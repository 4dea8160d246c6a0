package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/mattn/go-sqlite3"

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
	conn, release, err := s.connection(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var records []storage.Record
	err = conn.patiently(ctx, func(ctx context.Context) (err error) {
		records, err = s.load(ctx, conn.Conn, keys)
		return err
	})
	if err != nil {
		return nil, failure(err)
	}
	return records, nil
}

func (s *Store) load(ctx context.Context, q *sql.Conn, keys []string) ([]storage.Record, error) {
	records := make([]storage.Record, len(keys))
	for i, key := range keys {
		var version int64
		err := q.QueryRowContext(ctx, s.sql.load, []byte(key), s.now()).Scan(&version, &records[i].State)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, err
		}
		records[i].Version = storage.Version(version)
	}
	return records, nil
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
	b := newBatch(ctx, groups)
	if len(b.open) == 0 {
		return b.outcomes
	}
	if err := s.write(ctx, b); err != nil {
		b.fail(err)
	}
	return b.outcomes
}

// write tries the open groups of a batch in one transaction.
func (s *Store) write(ctx context.Context, b *batch) error {
	conn, release, err := s.connection(ctx)
	if err != nil {
		return storage.NotApplied(err)
	}
	defer release()
	if w, o := b.only(); w != nil {
		return s.writeOne(ctx, conn, w, o)
	}
	if err := conn.insist(ctx, "BEGIN IMMEDIATE"); err != nil {
		return storage.NotApplied(failure(err))
	}
	// The rest is not cancelled: it waits for nothing, and an interrupted
	// transaction would leave the connection in doubt.
	if err := s.swapAll(context.WithoutCancel(ctx), &prepared{Conn: conn.Conn}, b); err != nil {
		conn.rollback()
		return storage.NotApplied(failure(err))
	}
	// Without WAL the commit waits for those who read.
	if err := conn.insist(ctx, "COMMIT"); err != nil {
		conn.rollback()
		return failure(err)
	}
	return nil
}

// writeOne tries one swap, and reads what is there if it is refused.
func (s *Store) writeOne(ctx context.Context, conn *connection, w *storage.Swap, o *storage.Outcome) error {
	err := conn.patiently(ctx, func(ctx context.Context) (err error) {
		o.Swapped, err = s.swap(ctx, &prepared{Conn: conn.Conn}, w)
		return err
	})
	var e sqlite3.Error
	switch {
	case errors.As(err, &e) && e.Code == sqlite3.ErrIoErr: // of the commit, perhaps
		return failure(err)
	case err != nil:
		return storage.NotApplied(failure(err))
	case o.Swapped:
		return nil
	}
	err = conn.patiently(ctx, func(ctx context.Context) (err error) {
		o.Current, err = s.load(ctx, conn.Conn, []string{w.Key})
		return err
	})
	if err != nil {
		return storage.NotApplied(failure(err))
	}
	return nil
}

func (s *Store) swapAll(ctx context.Context, conn *prepared, b *batch) error {
	defer conn.finalize()
	for _, i := range b.open {
		if err := s.swapGroup(ctx, conn, b.groups[i], &b.outcomes[i]); err != nil {
			return err
		}
	}
	return nil
}

// swapGroup applies a group, or undoes what it did of it and reads what is
// there.
func (s *Store) swapGroup(ctx context.Context, conn *prepared, group []storage.Swap, o *storage.Outcome) error {
	if len(group) > 1 {
		if _, err := conn.ExecContext(ctx, "SAVEPOINT sluice"); err != nil {
			return err
		}
		defer conn.ExecContext(ctx, "RELEASE sluice")
	}
	for i := range group {
		same, err := s.swap(ctx, conn, &group[i])
		if err != nil {
			return err
		}
		if !same {
			return s.conflict(ctx, conn, group, o)
		}
	}
	o.Swapped = true
	return nil
}

func (s *Store) conflict(ctx context.Context, conn *prepared, group []storage.Swap, o *storage.Outcome) (err error) {
	if len(group) > 1 {
		if _, err := conn.ExecContext(ctx, "ROLLBACK TO sluice"); err != nil {
			return err
		}
	}
	keys := make([]string, len(group))
	for i := range group {
		keys[i] = group[i].Key
	}
	o.Current, err = s.load(ctx, conn.Conn, keys)
	return err
}

// swap applies one swap if the old version is what is stored.
func (s *Store) swap(ctx context.Context, conn *prepared, w *storage.Swap) (same bool, err error) {
	now := s.now()
	key, old, version := []byte(w.Key), int64(w.Old), int64(w.New.Version)
	state := w.New.State
	if state == nil { // which would be NULL
		state = []byte{}
	}
	var r sql.Result
	switch {
	case w.Old == 0 && w.New.Version == 0:
		found, err := s.load(ctx, conn.Conn, []string{w.Key})
		return err == nil && found[0].Version == 0, err
	case w.Old == 0:
		r, err = conn.exec(ctx, s.sql.create, key, version, state, expiry(now, w.TTL), now)
	case w.New.Version == 0:
		r, err = conn.exec(ctx, s.sql.remove, key, old, now)
	default:
		r, err = conn.exec(ctx, s.sql.replace, version, state, expiry(now, w.TTL), key, old, now)
	}
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

// expiry is when a record expires; nil: never.
func expiry(now int64, ttl time.Duration) any {
	if ttl == 0 || int64(ttl) > math.MaxInt64-now {
		return nil
	}
	return now + int64(ttl)
}

// failure says whether trying again can help. Nothing of a failed statement is
// applied; only of a failed COMMIT that cannot be said.
func failure(err error) error {
	var e sqlite3.Error
	switch {
	case !errors.As(err, &e):
		return fmt.Errorf("sqlite: %w", err)
	case isBusy(e):
		return fmt.Errorf("sqlite: %w: %w", storage.ErrContended, err)
	case e.Code == sqlite3.ErrFull || e.Code == sqlite3.ErrIoErr || e.Code == sqlite3.ErrCantOpen || e.Code == sqlite3.ErrReadonly:
		return fmt.Errorf("sqlite: %w: %w", storage.ErrUnavailable, err)
	}
	return fmt.Errorf("sqlite: %w", err)
}
