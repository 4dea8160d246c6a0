package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/program"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Run implements [driver.Server]. Each batch is one script, and Run sends all scripts in one
// pipeline. It sends scripts that the server does not know again in full.
func (s *Store) Run(ctx context.Context, batches ...*driver.Batch) {
	var runs []*runCmd
	for _, b := range batches {
		r, err := s.prepare(ctx, b)
		if b.Err = err; err == nil {
			runs = append(runs, r)
		}
	}
	unknown := s.sendRuns(ctx, runs, false)
	for _, r := range s.sendRuns(ctx, unknown, true) {
		r.fail(s, r.Err())
	}
}

// runCmd is the command that runs a batch.
type runCmd struct {
	*redis.StringSliceCmd
	batch   *driver.Batch
	script  *script
	one     bool // the script is run_one.lua
	tracker writeTracker
	args    arguments
}

func (r *runCmd) NoRetry() bool { return true }

// prepare checks a batch and finds its script.
func (s *Store) prepare(ctx context.Context, b *driver.Batch) (*runCmd, error) {
	if err := ctx.Err(); err != nil {
		return nil, storage.NotApplied(err)
	}
	if err := driver.CheckKeys(b.Keys); err != nil {
		return nil, err
	}
	if err := s.checkSamePlace(b.Keys); err != nil {
		return nil, err
	}
	one := isOne(b)
	script, err := s.scripts.get(b.Programs, one)
	if err != nil {
		return nil, storage.NotApplied(fmt.Errorf("redis: %w", err))
	}
	return &runCmd{batch: b, script: script, one: one}, nil
}

// sendRuns sends runs in one round trip and reads the replies. It returns the runs whose script the
// server does not know.
func (s *Store) sendRuns(ctx context.Context, runs []*runCmd, inFull bool) (unknown []*runCmd) {
	if len(runs) == 0 {
		return nil
	}
	for _, r := range runs {
		s.fillRun(ctx, r, inFull)
	}
	ended := s.doUntilDeadline(ctx, func(c redis.UniversalClient) { processAll(ctx, c, runs) })
	for _, r := range runs {
		switch {
		case ended != nil:
			r.fail(s, ended)
		case redis.HasErrorPrefix(r.Err(), "NOSCRIPT"):
			unknown = append(unknown, r)
		default:
			r.readReply(s)
		}
	}
	return unknown
}

func processAll(ctx context.Context, client redis.UniversalClient, runs []*runCmd) {
	if len(runs) == 1 {
		_ = client.Process(ctx, runs[0])
		return
	}
	pipe := client.Pipeline()
	for _, r := range runs {
		_ = pipe.Process(ctx, r)
	}
	_, _ = pipe.Exec(ctx)
}

// doUntilDeadline calls do and returns at the deadline of ctx, even if the client does not end then.
// It needs a goroutine only if the client cannot be given a timeout. Run need not notice cancellation.
func (s *Store) doUntilDeadline(ctx context.Context, do func(redis.UniversalClient)) error {
	if _, limited := ctx.Deadline(); s.single != nil && limited {
		client := s.withinDeadline(ctx)
		if client == nil {
			return context.DeadlineExceeded
		}
		do(client)
		return nil
	} else if !limited || s.endsInTime {
		do(s.client)
		return nil
	}
	return s.doUntilDone(ctx, func(c redis.UniversalClient) error { do(c); return nil })
}

// fillRun creates the command. It has the hash of the script, or the whole script if inFull is true.
func (s *Store) fillRun(ctx context.Context, r *runCmd, inFull bool) {
	b, w := r.batch, &r.args
	r.tracker = writeTracker{}
	s.begin(w, &r.tracker, r.script, inFull, b.Keys, 1)
	if r.one {
		w.add(appendOne(w.text, b))
	} else {
		w.add(appendBatch(w.text, b))
	}
	r.StringSliceCmd = redis.NewStringSliceCmd(ctx, w.args...)
	if len(b.Keys) > 0 {
		r.SetFirstKeyPos(firstKey)
	}
}

// appendBatch appends the argument of run.lua.
func appendBatch(dst []byte, b *driver.Batch) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(b.Version))
	dst = append(appendMargin(dst, b), flag(!b.Now.IsZero()))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(b.Programs)))
	dst = appendNow(dst, b.Now)
	for _, p := range b.Programs {
		dst = program.AppendArgs(dst, p)
	}
	return appendRequests(dst, b.Requests)
}

// appendMargin appends the margin of a batch in ms, in 6 bytes.
func appendMargin(dst []byte, b *driver.Batch) []byte {
	margin := milliseconds(max(b.Margin, 0))
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(dst, uint16(margin>>32)), uint32(margin))
}

// appendNow appends the time of a batch, if it has one, in two forms: as the programs read it, and in
// ms since 1970 with the remaining ns.
func appendNow(dst []byte, now time.Time) []byte {
	if now.IsZero() {
		return dst
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(algo.Instant(now)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(max(now.UnixMilli(), 0)))
	return binary.BigEndian.AppendUint32(dst, uint32(now.Nanosecond()%int(time.Millisecond)))
}

func appendRequests(dst []byte, requests []driver.Request) []byte {
	for i := range requests {
		r := &requests[i]
		times := uint32(min(max(r.Times, 1), math.MaxInt32))
		for j := range r.Uses {
			u := &r.Uses[j]
			dst = binary.BigEndian.AppendUint32(dst, uint32(u.Key+1))
			dst = binary.BigEndian.AppendUint16(dst, uint16(u.Program+1))
			dst = append(dst, byte(u.Op), flag(u.Shadow), flag(j == len(r.Uses)-1))
			dst = binary.BigEndian.AppendUint32(dst, times)
			dst = binary.BigEndian.AppendUint64(dst, uint64(u.Cost))
		}
	}
	return dst
}

// flag returns 1 for true.
func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (r *runCmd) readReply(s *Store) {
	err := r.Err()
	if err == nil {
		err = s.readReply(r.batch, r.Val())
	}
	if err != nil {
		r.fail(s, err)
		return
	}
	if first := &r.batch.Requests[0]; r.one && first.Uses[0].Shadow && first.Applied == driver.Damaged {
		first.Applied = 0 // run_one.lua does not know about shadow uses
	}
}

// fail sets the error of the batch.
func (r *runCmd) fail(s *Store, err error) {
	r.batch.Err = s.commandFailure(&r.tracker, err)
	if separable(r.batch) && (redis.HasErrorPrefix(err, "CROSSSLOT") || redis.HasErrorPrefix(err, "NOPERM")) {
		s.separateKeys()
		r.batch.Err = fmt.Errorf("redis: %w: %w", storage.ErrContended, err)
	}
}

// separable reports whether some request does not use all keys of the batch.
func separable(b *driver.Batch) bool {
	for i := range b.Requests {
		if len(b.Requests[i].Uses) < len(b.Keys) {
			return true
		}
	}
	return false
}
