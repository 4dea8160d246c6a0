package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/program"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Runs implements [driver.Server]. The database can run the programs of this module's
// algorithms and those in Options.Programs, unless Options.NoFunctions is set. It returns false if the DB is a connection or a
// transaction, which must be used by the goroutine of the caller. Decisions are then made by Load and CompareAndSwap.
func (s *Store) Runs(p *algo.Program) bool {
	_, isPool := s.db.(*pgxpool.Pool)
	return isPool && s.functions != nil && s.functions.Runs(p)
}

// Place implements [driver.Server]. There is one server.
func (s *Store) Place(...string) (server, slot string, err error) { return "", "", nil }

// Run implements [driver.Server]. It sends one statement for each batch, one after the other. A batch
// takes a second round trip if another process creates one of its keys at the same moment.
//
// If another transaction holds the lock of a key for more than a quarter of a second, the requests
// that use this key fail with [storage.ErrContended] in Batch.KeyErr, and the other requests are
// decided. If all requests depend on that key, the batch waits until shortly before its deadline.
func (s *Store) Run(ctx context.Context, batches ...*driver.Batch) {
	for _, b := range batches {
		b.Err = s.runBatch(ctx, b)
	}
}

func (s *Store) runBatch(ctx context.Context, b *driver.Batch) error {
	if err := driver.BeginBatch(ctx, b); err != nil {
		return err
	}
	for _, p := range b.Programs {
		if !s.Runs(p) {
			return storage.NotApplied(fmt.Errorf("postgres: there is no function for the program %q", p.Name))
		}
	}
	b.At, b.Found, b.KeyErr = b.Now, make([]storage.Record, len(b.Keys)), nil
	r := newRun(b)
	if len(b.Requests) < 2 || s.inTransaction() {
		return s.decide(ctx, r)
	}
	r.lockTimeout = s.batchLockTimeout
	if deadline, ok := ctx.Deadline(); ok { // leaves time to decide the parts
		r.lockTimeout = max(min(r.lockTimeout, time.Until(deadline)/3), time.Millisecond)
	}
	if err := s.decide(ctx, r); codeOf(err) != lockNotAvailable {
		return err
	}
	parts := r.split()
	if len(parts) == 1 { // a split does not help
		r.lockTimeout = 0
		return s.decide(ctx, r)
	}
	for _, part := range parts {
		part.lockTimeout = splitLockTimeout
		if err := s.decide(ctx, part); err != nil {
			part.failKeys(err)
		}
	}
	return nil
}

// maxAttempts is how often a statement is sent while other transactions create its keys.
const maxAttempts = 10

// decide sends the statement, and sends it again for the keys that other transactions created
// meanwhile, up to maxAttempts times. A batch whose requests have several uses may need more than two
// attempts. But no attempt finds that a key is absent that was created before. If all attempts fail for
// the same key, no other transaction creates it: the table drops the row or hides it.
// If an attempt fails after some keys were decided, the error belongs to the other keys.
func (s *Store) decide(ctx context.Context, r *run) error {
	err, begun, same := errCreated, false, true
	for attempt := 0; attempt < maxAttempts && errors.Is(err, errCreated); attempt++ {
		last := err
		if err = s.attempt(ctx, r); err == nil {
			if begun = true; len(r.keys) > 0 {
				err = errCreated
			}
		}
		same = same && (attempt == 0 || err != nil && err.Error() == last.Error())
	}
	switch {
	case errors.Is(err, errCreated) && same:
		err = storage.NotApplied(errUnwritten)
	case errors.Is(err, errCreated):
		err = fmt.Errorf("%w: %w", storage.ErrContended, errCreated)
	}
	if err != nil && begun && !s.inTransaction() {
		r.failKeys(err)
		return nil
	}
	return err
}

// attempt sends the statement once.
func (s *Store) attempt(ctx context.Context, r *run) error {
	sql, args := s.sql.singles, r.args
	switch {
	case r.several:
		sql = s.sql.several
	case len(r.keys) == 1:
		sql, args = s.sql.one, r.oneArgs
	}
	withTimeout := func(lockTimeout time.Duration) []any { return args(s.functions, lockTimeout) }
	rows, err := s.send(ctx, sql, withTimeout, r.lockTimeout, r.several)
	if err != nil {
		return err
	}
	if len(rows) != len(r.keys) {
		return fmt.Errorf("postgres: the reply has %d rows for %d keys", len(rows), len(r.keys))
	}
	r.apply(rows)
	return nil
}

// run is a batch, or the part of a batch that is not decided yet.
type run struct {
	batch       *driver.Batch
	keys        []int         // indexes of Batch.Keys, sorted by key
	requests    []int         // indexes of Batch.Requests that use these keys; in the order of keys unless several is true
	several     bool          // it is not true that each key has one request with one use
	lockTimeout time.Duration // 0 for the time until the deadline
}

func newRun(b *driver.Batch) *run {
	r := &run{batch: b, keys: order(b.Keys), requests: make([]int, len(b.Requests)), several: len(b.Keys) != len(b.Requests)}
	requestOf := slices.Repeat([]int{-1}, len(b.Keys))
	for i := range b.Requests {
		request := &b.Requests[i]
		u := &request.Uses[0]
		r.several = r.several || len(request.Uses) > 1 || requestOf[u.Key] >= 0 || request.Times > 1 && u.Op != driver.Allow
		r.requests[i], requestOf[u.Key] = i, i
	}
	if !r.several {
		for i, k := range r.keys {
			r.requests[i] = requestOf[k]
		}
	}
	return r
}

// order returns the indexes of keys, sorted by key.
func order(keys []string) []int {
	sorted := make([]int, len(keys))
	for i := range sorted {
		sorted[i] = i
	}
	slices.SortFunc(sorted, func(i, j int) int { return strings.Compare(keys[i], keys[j]) })
	return sorted
}

// split returns parts of the run that have no common keys.
func (r *run) split() (parts []*run) {
	partOf := make([]*run, len(r.batch.Keys))
	for k := range partOf {
		partOf[k] = &run{batch: r.batch, several: r.several}
	}
	for _, i := range r.requests {
		uses := r.batch.Requests[i].Uses
		for _, u := range uses {
			from, to := partOf[u.Key], partOf[uses[0].Key]
			for k := range partOf {
				if partOf[k] == from {
					partOf[k] = to
				}
			}
		}
	}
	for _, k := range r.keys {
		if len(partOf[k].keys) == 0 {
			parts = append(parts, partOf[k])
		}
		partOf[k].keys = append(partOf[k].keys, k)
	}
	for _, i := range r.requests {
		part := partOf[r.batch.Requests[i].Uses[0].Key]
		part.requests = append(part.requests, i)
	}
	return parts
}

// begin returns the arguments that all statements have: the lock timeout in ms, the version, the time
// (nil for the server's clock) and the margin in µs, rounded up.
func (r *run) begin(lockTimeout time.Duration) []any {
	var now *int64
	if !r.batch.At.IsZero() {
		at := algo.Instant(r.batch.At)
		now = &at
	}
	margin := (max(r.batch.Margin, 0) + time.Microsecond - 1) / time.Microsecond
	return []any{int32(lockTimeout.Milliseconds()), int64(r.batch.Version), now, int64(margin)}
}

// oneArgs returns the arguments of oneSQL.
func (r *run) oneArgs(f *program.Functions, lockTimeout time.Duration) []any {
	request := &r.batch.Requests[r.requests[0]]
	u := &request.Uses[0]
	number, args := f.Call(r.batch.Programs[u.Program])
	return append(r.begin(lockTimeout), []byte(r.batch.Keys[u.Key]), int32(u.Op), number, u.Cost, int64(max(request.Times, 1)), append([]int64{}, args...))
}

// args returns the arguments of singlesSQL and severalSQL: the keys, then those of the function in
// internal/program/run.sql. These are columns with an element for each use, except the last: the arguments of all
// programs. The arguments of a use are those from begin to end, which count from 1 and are included.
func (r *run) args(f *program.Functions, lockTimeout time.Duration) []any {
	b := r.batch
	keys, places := make([][]byte, len(r.keys)), make([]int32, len(b.Keys))
	for i, k := range r.keys {
		keys[i], places[k] = []byte(b.Keys[k]), int32(i+1)
	}
	type call struct{ number, begin, end int32 }
	calls, all := make([]call, len(b.Programs)), []int64{}
	for i, p := range b.Programs {
		number, args := f.Call(p)
		begin := int32(len(all) + 1)
		all = append(all, args...)
		calls[i] = call{number, begin, int32(len(all))}
	}
	n := 0
	for _, i := range r.requests {
		n += len(b.Requests[i].Uses)
	}
	column := func() []int32 { return make([]int32, n) }
	requests, used, ops, shadows, programs, begins, ends := column(), column(), column(), column(), column(), column(), column()
	costs, times := make([]int64, n), make([]int64, n)
	at := 0
	for number, i := range r.requests {
		request := &b.Requests[i]
		for j := range request.Uses {
			u := &request.Uses[j]
			requests[at], used[at], ops[at], costs[at], times[at] = int32(number), places[u.Key], int32(u.Op), u.Cost, int64(max(request.Times, 1))
			if u.Shadow {
				shadows[at] = 1
			}
			c := &calls[u.Program]
			programs[at], begins[at], ends[at] = c.number, c.begin, c.end
			at++
		}
	}
	if !r.several { // singlesSQL does not use them
		requests, used, shadows = nil, nil, nil
	}
	return append(r.begin(lockTimeout), keys, requests, used, ops, shadows, programs, begins, ends, costs, times, all)
}

// apply copies the reply into the batch. The run keeps the keys that another transaction created. They
// are decided again with the same time.
func (r *run) apply(rows []row) {
	b, keys, requests := r.batch, r.keys, r.requests
	if b.At.IsZero() {
		b.At = time.UnixMicro(rows[0].At)
	}
	r.keys, r.requests = nil, nil
	for i := range rows {
		row, at := &rows[i], rows[i].Place-1
		if row.Created {
			r.keys, r.requests = append(r.keys, keys[at]), append(r.requests, requests[at])
			continue
		}
		b.Found[keys[at]] = row.record()
		for j, count := range row.Counts {
			b.Requests[requests[j]].Applied = int(count)
		}
		if !r.several {
			request := &b.Requests[requests[at]]
			request.Applied = applied(b, &request.Uses[0], row.Count)
		}
	}
}

// applied returns Request.Applied of a request with one use.
func applied(b *driver.Batch, u *driver.Use, count int64) int {
	switch {
	case u.Shadow && count == driver.Damaged:
		return 0
	}
	return int(count)
}

// failKeys sets the error of the keys of the run.
func (r *run) failKeys(err error) {
	b := r.batch
	if b.KeyErr == nil {
		b.KeyErr = make([]error, len(b.Keys))
	}
	for _, k := range r.keys {
		b.KeyErr[k] = &storage.KeyError{Key: b.Keys[k], Err: err}
	}
}
