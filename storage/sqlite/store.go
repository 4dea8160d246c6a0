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
	// different tables do not meet.
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

var _ storage.Batcher = (*Store)(nil)

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
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	records, err := s.load(ctx, s.db, keys)
	if err != nil {
		return nil, failure(err)
	}
	return records, nil
}

// queryer is a *sql.DB or a *sql.Conn.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (s *Store) load(ctx context.Context, q queryer, keys []string) ([]storage.Record, error) {
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

// CompareAndSwapBatch implements [storage.Batcher]: the groups share one
// transaction.
func (s *Store) CompareAndSwapBatch(ctx context.Context, groups ...[]storage.Swap) []storage.Outcome {
	outcomes := make([]storage.Outcome, len(groups))
	for i, err := range storage.CheckBatch(groups) {
		outcomes[i].Err = err
	}
	if err := s.write(ctx, groups, outcomes); err != nil {
		for i := range outcomes {
			if outcomes[i].Err == nil {
				outcomes[i] = storage.Outcome{Err: err}
			}
		}
	}
	return outcomes
}

// write tries the groups that have no error yet in one transaction.
func (s *Store) write(ctx context.Context, groups [][]storage.Swap, outcomes []storage.Outcome) (err error) {
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return storage.NotApplied(failure(err))
	}
	defer conn.Close()
	restore, err := patience(ctx, conn)
	if err != nil {
		return storage.NotApplied(failure(err))
	}
	defer restore()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return storage.NotApplied(failure(err))
	}
	// The rest is not cancelled: it waits for nothing, and an interrupted
	// transaction would leave the connection in doubt.
	ctx = context.WithoutCancel(ctx)
	if err := s.swapAll(ctx, conn, groups, outcomes); err != nil {
		rollback(ctx, conn)
		return storage.NotApplied(failure(err))
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		rollback(ctx, conn)
		return failure(err)
	}
	return nil
}

// rollback ends a transaction that failed; some failures have ended it already.
func rollback(ctx context.Context, conn *sql.Conn) {
	_, _ = conn.ExecContext(ctx, "ROLLBACK")
}

func (s *Store) swapAll(ctx context.Context, conn *sql.Conn, groups [][]storage.Swap, outcomes []storage.Outcome) error {
	for i, group := range groups {
		if outcomes[i].Err != nil {
			continue
		}
		if err := s.swapGroup(ctx, conn, group, &outcomes[i]); err != nil {
			return err
		}
	}
	return nil
}

// swapGroup applies a group, or undoes what it did of it and reads what is
// there.
func (s *Store) swapGroup(ctx context.Context, conn *sql.Conn, group []storage.Swap, o *storage.Outcome) error {
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

func (s *Store) conflict(ctx context.Context, conn *sql.Conn, group []storage.Swap, o *storage.Outcome) (err error) {
	if len(group) > 1 {
		if _, err := conn.ExecContext(ctx, "ROLLBACK TO sluice"); err != nil {
			return err
		}
	}
	keys := make([]string, len(group))
	for i := range group {
		keys[i] = group[i].Key
	}
	o.Current, err = s.load(ctx, conn, keys)
	return err
}

// swap applies one swap if the old version is what is stored.
func (s *Store) swap(ctx context.Context, conn *sql.Conn, w *storage.Swap) (same bool, err error) {
	now := s.now()
	key, old, version := []byte(w.Key), int64(w.Old), int64(w.New.Version)
	state := append([]byte{}, w.New.State...) // nil would be NULL
	var r sql.Result
	switch {
	case w.Old == 0 && w.New.Version == 0:
		found, err := s.load(ctx, conn, []string{w.Key})
		return err == nil && found[0].Version == 0, err
	case w.Old == 0:
		r, err = conn.ExecContext(ctx, s.sql.create, key, version, state, expiry(now, w.TTL), now)
	case w.New.Version == 0:
		r, err = conn.ExecContext(ctx, s.sql.remove, key, old, now)
	default:
		r, err = conn.ExecContext(ctx, s.sql.replace, version, state, expiry(now, w.TTL), key, old, now)
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

// patience makes the connection wait for the write lock no longer than ctx
// lasts, because SQLite does not hear of a context while it waits. restore puts
// the user's setting back.
func patience(ctx context.Context, conn *sql.Conn) (restore func(), err error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return func() {}, nil
	}
	left := max(0, time.Until(deadline).Milliseconds())
	var user int64
	if err := conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&user); err != nil {
		return nil, err
	}
	if user <= left {
		return func() {}, nil
	}
	set := func(ms int64) error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA busy_timeout = %d", ms))
		return err
	}
	return func() { _ = set(user) }, set(left)
}

// failure says whether trying again can help. Nothing of a failed statement is
// applied; only of a failed COMMIT that cannot be said.
func failure(err error) error {
	var e sqlite3.Error
	switch {
	case !errors.As(err, &e):
		return fmt.Errorf("sqlite: %w", err)
	case e.Code == sqlite3.ErrBusy || e.Code == sqlite3.ErrLocked:
		return fmt.Errorf("sqlite: %w: %w", storage.ErrContended, err)
	case e.Code == sqlite3.ErrFull || e.Code == sqlite3.ErrIoErr || e.Code == sqlite3.ErrCantOpen || e.Code == sqlite3.ErrReadonly:
		return fmt.Errorf("sqlite: %w: %w", storage.ErrUnavailable, err)
	}
	return fmt.Errorf("sqlite: %w", err)
}
