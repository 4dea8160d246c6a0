package postgres

import (
	"cmp"
	"context"
	"encoding/hex"
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

// Runs implements [driver.Server]. With a pool and without NoFunctions, the database runs the programs of sluice's algorithms and
// of Options.Programs.
func (s *Store) Runs(p *algo.Program) bool {
	_, isPool := s.db.(*pgxpool.Pool)
	return isPool && s.functions != nil && s.functions.Runs(p)
}

func (s *Store) Place(...string) (server, slot string, err error) { return "", "", nil }

// Run implements [driver.Server]. It sends the batches one after the other.
func (s *Store) Run(ctx context.Context, batches ...*driver.Batch) {
	for _, b := range batches {
		b.Err = s.runBatch(ctx, b)
	}
}

func (s *Store) runBatch(ctx context.Context, b *driver.Batch) error {
	if err := driver.BeginBatch(ctx, b); err != nil {
		return err
	}
	r := newRun(b)
	for _, p := range r.programs {
		if !s.Runs(p) {
			return storage.NotApplied(fmt.Errorf("postgres: there is no function for the program %q", p.Name))
		}
	}
	b.At, b.Found, b.KeyErr = b.Now, make([]storage.Record, len(b.Keys)), nil
	lockTimeout := s.batchLockTimeout
	if deadline, ok := ctx.Deadline(); ok { // leaves time to decide the parts
		lockTimeout = max(min(lockTimeout, time.Until(deadline)/3), time.Millisecond)
	}
	err := s.decide(ctx, r, lockTimeout)
	if !slices.Contains(waited, codeOf(err)) {
		return err
	}
	parts := r.split()
	for _, part := range parts {
		if len(parts) > 1 {
			err = s.decide(ctx, part, splitLockTimeout)
		}
		if err != nil {
			part.failKeys(err)
		}
	}
	return nil
}

// maxAttempts is how often a statement is sent while other transactions create its keys.
const maxAttempts = 10

// decide sends the statement, up to maxAttempts times if other transactions create keys meanwhile. No attempt finds a key
// absent that was created before. So if all attempts find equally many absent keys, the table drops, changes or hides rows.
func (s *Store) decide(ctx context.Context, r *run, lockTimeout time.Duration) error {
	args := r.args(s.functions)
	sendOnce := func(ctx context.Context) ([]reply, error) {
		return send[reply](ctx, s, s.sql.decide, args, lockTimeout, false)
	}
	var first, last error
	for range maxAttempts {
		replies, err := untilDeadline(ctx, s, sendOnce)
		if err == nil {
			return r.apply(replies)
		}
		if !errors.Is(err, errCreated) {
			return err
		}
		first, last = cmp.Or(first, err), err
	}
	if first.Error() == last.Error() {
		return storage.NotApplied(errUnwritten)
	}
	return fmt.Errorf("%w: %w", storage.ErrContended, errCreated)
}

// run is a batch, or the part of a batch that is not decided yet.
type run struct {
	batch    *driver.Batch
	programs []*algo.Program
	keys     []int // indexes of Batch.Keys, sorted by key
	requests []int // indexes of Batch.Requests that use these keys
}

func newRun(b *driver.Batch) *run {
	r := &run{batch: b, programs: b.Programs(), keys: order(b.Keys), requests: make([]int, len(b.Requests))}
	for i := range r.requests {
		r.requests[i] = i
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
		partOf[k] = &run{batch: r.batch, programs: r.programs}
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

// args returns the arguments of the statement; see decide.sql. send sets the last one, the lock timeout.
func (r *run) args(f *program.Functions) []any {
	b := r.batch
	var at *int64
	if !b.At.IsZero() {
		now := algo.Instant(b.At)
		at = &now
	}
	margin := (max(b.Margin, 0) + time.Microsecond - 1) / time.Microsecond
	keys, places := make([][]byte, len(r.keys)), make([]int64, len(b.Keys))
	for i, k := range r.keys {
		keys[i], places[k] = []byte(b.Keys[k]), int64(i+1)
	}
	type call struct{ number, begin, end int64 }
	calls, args := make([]call, len(r.programs)), []int64{}
	for i, p := range r.programs {
		c := &calls[i]
		c.begin = int64(len(args) + 1)
		c.number, args = f.AppendCall(args, p)
		c.end = int64(len(args))
	}
	uses := make([]int64, 0, 9*len(r.requests))
	for _, i := range r.requests {
		request := &b.Requests[i]
		for j := range request.Uses {
			u, enforced := &request.Uses[j], int64(1)
			if u.Shadow {
				enforced = 0
			}
			c := &calls[driver.IndexOfProgram(r.programs, u.Program)]
			uses = append(uses, places[u.Key], int64(u.Op), enforced, c.number, c.begin, c.end, u.Cost, int64(max(request.Times, 1)),
				int64(len(request.Uses)-1-j))
		}
	}
	return []any{int64(b.Version), at, int64(margin), keys, uses, args, nil}
}

// reply is the row of the reply; see decide.sql.
type reply struct {
	At       int64
	Versions []int64
	States   []string
	TTLs     []int64
	Applied  []int64
}

// apply copies the reply into the batch.
func (r *run) apply(replies []reply) error {
	b := r.batch
	if len(replies) != 1 || len(replies[0].Versions) != len(r.keys) || len(replies[0].Applied) != len(r.requests) {
		return fmt.Errorf("postgres: the reply to a batch of %d keys and %d requests is %+v", len(r.keys), len(r.requests), replies)
	}
	reply := &replies[0]
	if b.At.IsZero() {
		b.At = time.UnixMicro(reply.At)
	}
	for i, k := range r.keys {
		if version := reply.Versions[i]; version != 0 {
			state, _ := hex.DecodeString(reply.States[i]) // the server has encoded it
			b.Found[k] = storage.Record{Version: storage.Version(version), State: state, TTL: time.Duration(reply.TTLs[i]) * time.Microsecond}
		}
	}
	for i, applied := range reply.Applied {
		b.Requests[r.requests[i]].Applied = int(applied)
	}
	return nil
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
