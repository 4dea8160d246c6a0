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

// Run implements [driver.Server]. Each batch is one script, and all scripts are sent in one
// pipeline. Scripts that the server does not know are sent again in full.
func (s *Store) Run(ctx context.Context, batches ...*driver.Batch) {
	var runs []*run
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

// run is a batch on its way.
type run struct {
	*redis.StringSliceCmd
	batch   *driver.Batch
	script  *script
	one     bool // the script is run_one.lua
	tracker writeTracker
	words   words
}

func (r *run) NoRetry() bool { return true }

// prepare reports what is wrong with a batch, before anything is sent.
func (s *Store) prepare(ctx context.Context, b *driver.Batch) (*run, error) {
	if err := ctx.Err(); err != nil {
		return nil, storage.NotApplied(err)
	}
	if err := driver.CheckKeys(b.Keys); err != nil {
		return nil, err
	}
	if err := s.checkKeys(b.Keys); err != nil {
		return nil, err
	}
	one := isOne(b)
	script, err := s.scripts.of(b.Programs, one)
	if err != nil {
		return nil, storage.NotApplied(fmt.Errorf("redis: %w", err))
	}
	return &run{batch: b, script: script, one: one}, nil
}

// sendRuns sends runs in one round trip and reads the replies. It returns the runs whose script the
// server does not know.
func (s *Store) sendRuns(ctx context.Context, runs []*run, inFull bool) (unknown []*run) {
	if len(runs) == 0 {
		return nil
	}
	for _, r := range runs {
		s.fillRun(ctx, r, inFull)
	}
	ended := s.untilDeadline(ctx, func(c redis.UniversalClient) { processAll(ctx, c, runs) })
	for _, r := range runs {
		switch {
		case ended != nil:
			r.fail(s, ended)
		case redis.HasErrorPrefix(r.Err(), "NOSCRIPT"):
			unknown = append(unknown, r)
		default:
			r.settle(s)
		}
	}
	return unknown
}

func processAll(ctx context.Context, client redis.UniversalClient, runs []*run) {
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

// untilDeadline lets do use the client, and returns an error if the context ended first. The
// context ends by its deadline alone, so no goroutine is needed if the client ends then too.
func (s *Store) untilDeadline(ctx context.Context, do func(redis.UniversalClient)) error {
	if _, limited := ctx.Deadline(); s.plain != nil && limited {
		client := s.withinDeadline(ctx)
		if client == nil {
			return context.DeadlineExceeded
		}
		do(client)
		return nil
	} else if !limited || s.heeds {
		do(s.client)
		return nil
	}
	return s.within(ctx, func(c redis.UniversalClient) error { do(c); return nil })
}

// fillRun fills in the command, with the script's hash or in full.
func (s *Store) fillRun(ctx context.Context, r *run, inFull bool) {
	b, w := r.batch, &r.words
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

// appendBatch appends what run.lua takes.
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

// appendNow appends the time of a batch, if it has one: as programs take it, and in ms since 1970 with
// the rest in ns.
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

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (r *run) settle(s *Store) {
	err := r.Err()
	if err == nil {
		err = s.readReply(r.batch, r.Val())
	}
	if err != nil {
		r.fail(s, err)
		return
	}
	if first := &r.batch.Requests[0]; r.one && first.Uses[0].Shadow && first.Applied == driver.Damaged {
		first.Applied = 0 // which run_one.lua leaves to us
	}
}

// fail sets the error of the batch.
func (r *run) fail(s *Store, err error) {
	r.batch.Err = s.unansweredBy(&r.tracker, err)
	if separable(r.batch) && (redis.HasErrorPrefix(err, "CROSSSLOT") || redis.HasErrorPrefix(err, "NOPERM")) {
		s.separate()
		r.batch.Err = fmt.Errorf("redis: %w: %w", storage.ErrContended, err)
	}
}

// separable reports whether the requests do not all use all keys.
func separable(b *driver.Batch) bool {
	for i := range b.Requests {
		if len(b.Requests[i].Uses) < len(b.Keys) {
			return true
		}
	}
	return false
}
