package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice/storage"
)

// DefaultTable is the table's name when the options do not say.
const DefaultTable = "sluice_states"

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
	db      DB
	options Options
	sql     statements
}

var (
	_ storage.Batcher = (*Store)(nil)
	_ storage.Clock   = (*Store)(nil)
	_ storage.Purger  = (*Store)(nil)
)

// New makes a store on db, which it neither pings nor closes. The table must be
// there before the first call: see [Store.Migrate].
func New(db DB, o Options) (*Store, error) {
	if db == nil {
		return nil, errors.New("postgres: the database must not be nil")
	}
	if o.Table == "" {
		o.Table = DefaultTable
	}
	for _, name := range [...]string{o.Schema, o.Table} {
		if strings.ContainsRune(name, 0) || len(name) > 63 {
			return nil, fmt.Errorf("postgres: the name of a schema or table has at most 63 bytes and no NUL, got %q", name)
		}
	}
	return &Store{db: db, options: o, sql: newStatements(o)}, nil
}

// Load implements [storage.Store].
func (s *Store) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if err := storage.CheckLoad(keys); err != nil {
		return nil, err
	}
	records := make([]storage.Record, len(keys))
	if len(keys) == 0 {
		return records, ctx.Err()
	}
	names := make([][]byte, len(keys))
	places := make(map[string][]int, len(keys))
	for i, key := range keys {
		names[i] = []byte(key)
		places[key] = append(places[key], i)
	}
	db, release, err := s.connection(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	rows, err := db.Query(ctx, s.sql.load, names)
	if err != nil {
		return nil, s.failed(err)
	}
	var key, state []byte
	var version int64
	_, err = pgx.ForEachRow(rows, []any{&key, &version, &state}, func() error {
		for _, i := range places[string(key)] {
			records[i] = storage.Record{Version: storage.Version(version), State: slices.Clone(state)}
		}
		return nil
	})
	if err != nil {
		return nil, s.failed(err)
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
	outcomes := make([]storage.Outcome, len(groups))
	for i, err := range storage.CheckBatch(groups) {
		outcomes[i].Err = err
	}
	if err := ctx.Err(); err != nil {
		return fail(outcomes, storage.NotApplied(err))
	}
	if w := newWrite(groups, outcomes); len(w.places) > 0 {
		s.commit(ctx, w)
	}
	return outcomes
}

// attempts is how often a batch is tried when a key was created at the same
// moment: the next time that is a conflict of its group alone.
const attempts = 3

// commit tries all groups together, and answers them.
func (s *Store) commit(ctx context.Context, w *write) {
	for range attempts {
		err := s.write(ctx, w)
		switch several := w.groups() > 1; {
		case errors.Is(err, errRaced) && several:
			continue
		case errors.Is(err, errRaced):
			s.lost(ctx, w)
			return
		case errors.Is(err, storage.ErrContended) && several:
			s.apart(ctx, w, hasty)
			return
		}
		fail(w.outcomes, err)
		return
	}
	s.apart(ctx, w, 0)
}

// apart tries each group for itself, because one was in the way of all.
func (s *Store) apart(ctx context.Context, w *write, patience time.Duration) {
	for g, group := range w.all {
		if w.outcomes[g].Err == nil && len(group) > 0 {
			alone := newWrite(w.all[g:g+1], w.outcomes[g:g+1])
			alone.patience = patience
			s.commit(ctx, alone)
		}
	}
}

func fail(outcomes []storage.Outcome, err error) []storage.Outcome {
	for i := range outcomes {
		if err != nil && outcomes[i].Err == nil {
			outcomes[i] = storage.Outcome{Err: err}
		}
	}
	return outcomes
}

// lost answers a group whose key was created by another at the same moment: a
// conflict, with what is there by now.
func (s *Store) lost(ctx context.Context, w *write) {
	g := w.places[0].group
	keys := make([]string, len(w.all[g]))
	for i := range keys {
		keys[i] = w.all[g][i].Key
	}
	current, err := s.Load(ctx, keys...)
	if err != nil {
		err = storage.NotApplied(err)
	}
	w.outcomes[g] = storage.Outcome{Current: current, Err: err}
}

// inside reports whether the database is a transaction of the caller.
func (s *Store) inside() bool {
	_, ok := s.db.(pgx.Tx)
	return ok
}

// connection is what to send statements on. Of a pool a connection is acquired,
// because if that fails nothing was sent.
func (s *Store) connection(ctx context.Context) (DB, func(), error) {
	pool, ok := s.db.(*pgxpool.Pool)
	if !ok {
		return s.db, func() {}, nil
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, nil, storage.NotApplied(fmt.Errorf("postgres: %w: %w", storage.ErrUnavailable, err))
	}
	return conn, conn.Release, nil
}

// Now implements [storage.Clock] with the server's clock_timestamp().
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	rows, err := s.db.Query(ctx, "SELECT clock_timestamp()")
	if err == nil {
		now, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[time.Time])
	}
	if err != nil {
		return time.Time{}, s.failed(err)
	}
	return now, nil
}

// write is the argument of the swap statement: all keys of all groups, in their
// order.
type write struct {
	all      [][]storage.Swap
	outcomes []storage.Outcome
	places   []place
	patience time.Duration // how long to wait for a lock at most; 0: as long as there is time
}

// place is where a swap stands.
type place struct{ group, swap int }

func newWrite(groups [][]storage.Swap, outcomes []storage.Outcome) *write {
	w := &write{all: groups, outcomes: outcomes}
	for g, group := range groups {
		if outcomes[g].Err != nil {
			continue
		}
		outcomes[g].Swapped = len(group) == 0
		for i := range group {
			w.places = append(w.places, place{g, i})
		}
	}
	slices.SortFunc(w.places, func(a, b place) int {
		return cmp.Compare(w.swap(a).Key, w.swap(b).Key)
	})
	if w.groups() > 1 {
		w.patience = shared
	}
	return w
}

func (w *write) swap(p place) *storage.Swap { return &w.all[p.group][p.swap] }

// groups is how many groups there are something to write of.
func (w *write) groups() (n int) {
	for g := range w.all {
		if w.outcomes[g].Err == nil && len(w.all[g]) > 0 {
			n++
		}
	}
	return n
}

// creates reports whether a key may be created by two at the same moment, which
// makes the statement fail.
func (w *write) creates() bool {
	return len(w.places) > 1 && slices.ContainsFunc(w.places, func(p place) bool { return w.swap(p).Old == 0 })
}

// args are the columns: group, key, old version, new version, state, TTL in
// microseconds (0: for ever; -1: written as expired, which is deleted); and for
// how many milliseconds to wait for a lock, if not 0.
func (w *write) args(patience time.Duration) []any {
	n := len(w.places)
	groups, olds, news, ttls := make([]int32, n), make([]int64, n), make([]int64, n), make([]int64, n)
	keys, states := make([][]byte, n), make([][]byte, n)
	for i, p := range w.places {
		s := w.swap(p)
		groups[i], keys[i], olds[i] = int32(p.group), []byte(s.Key), int64(s.Old)
		news[i], states[i] = int64(s.New.Version), append([]byte{}, s.New.State...)
		switch {
		case s.New.Version == 0:
			ttls[i] = -1
		case s.TTL > 0:
			ttls[i] = int64((s.TTL-1)/time.Microsecond) + 1
		}
	}
	return []any{groups, keys, olds, news, states, ttls, int32(patience.Milliseconds())}
}

// write sends the statement; in a transaction of the caller behind a savepoint,
// if it may fail.
func (s *Store) write(ctx context.Context, w *write) error {
	db, release, err := s.connection(ctx)
	if err != nil {
		return err
	}
	defer release()
	tx, inside := db.(pgx.Tx)
	switch {
	case !inside:
		return s.alone(ctx, db, w)
	case !w.creates():
		return s.exec(ctx, db, w, 0)
	}
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return s.failed(err)
	}
	if err := s.exec(ctx, savepoint, w, 0); err != nil {
		return errors.Join(err, savepoint.Rollback(ctx))
	}
	if err := savepoint.Commit(ctx); err != nil {
		return s.failed(err)
	}
	return nil
}

// exec sends the statement; patience is for how long it may wait for a lock, if
// not 0: until the end of the transaction.
func (s *Store) exec(ctx context.Context, db DB, w *write, patience time.Duration) error {
	rows, err := db.Query(ctx, s.sql.swap, w.args(patience)...)
	if err != nil {
		return s.failed(err)
	}
	var same bool
	var version *int64
	var state []byte
	i := 0
	_, err = pgx.ForEachRow(rows, []any{&same, &version, &state}, func() error {
		w.settle(w.places[i], same, version, state)
		i++
		return nil
	})
	if err != nil {
		return s.failed(err)
	}
	return nil
}

// settle notes the answer for one key.
func (w *write) settle(p place, same bool, version *int64, state []byte) {
	o := &w.outcomes[p.group]
	if o.Swapped = same; same {
		return
	}
	if o.Current == nil {
		o.Current = make([]storage.Record, len(w.all[p.group]))
	}
	if version != nil {
		o.Current[p.swap] = storage.Record{Version: storage.Version(*version), State: slices.Clone(state)}
	}
}
