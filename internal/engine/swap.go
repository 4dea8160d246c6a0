package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// swapper decides one request by compare-and-swap: Load, evaluate, CompareAndSwap, and again
// after a conflict.
type swapper struct {
	queue   *queue
	request *Request
	records []storage.Record
	now     time.Time
	swaps   []storage.Swap
	backoff backoff
}

// decideBySwaps sees a request through by swaps.
func (q *queue) decideBySwaps(ctx context.Context, r *Request) error {
	e := q.engine
	r.state, r.declined = pausing, false
	s := &swapper{queue: q, request: r}
	if e.onCaller {
		return s.call(ctx)
	}
	waiting := e.swapping.Add(1)
	if waiting > int64(e.options.Queue) {
		e.swapping.Add(-1)
		return fmt.Errorf("%w: %d", storage.ErrOverloaded, waiting)
	}
	r.expect()
	go func() {
		defer e.swapping.Add(-1)
		r.err = s.call(context.WithoutCancel(ctx))
		q.mu.Lock()
		defer q.mu.Unlock()
		q.settle(r)
	}()
	return q.await(ctx, r)
}

// call is run. If the store panics, the caller does, and no goroutine of the engine.
func (s *swapper) call(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.request.panicked, err = p, errPanicked
		}
	}()
	return s.run(ctx)
}

// run tries until the request is settled, or its time is over.
func (s *swapper) run(ctx context.Context) error {
	r := s.request
	ctx, cancel := context.WithDeadline(ctx, r.deadline)
	defer cancel()
	for {
		settled, err := s.attempt(ctx)
		switch {
		case settled && err != nil && r.err == nil: // not the evaluator's own error
			return r.outcome(err)
		case settled:
			return err
		}
		if !s.mark(pausing, err) {
			return err
		}
		if ended := s.backoff.wait(ctx); ended != nil {
			s.queue.mu.Lock()
			s.queue.noteSpent(r)
			s.queue.mu.Unlock()
			if r.lost {
				return unknown(err)
			}
			return exhausted(err, ended)
		}
	}
}

// mark sets the state of the request. It reports whether the caller is still there: one that has
// left may have been told that nothing was applied.
func (s *swapper) mark(to state, trouble error) (stays bool) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if stays = s.request.state != left; stays {
		s.request.state, s.request.trouble = to, trouble
	}
	return stays
}

// attempt decides the request on what is stored now. If that does not settle it, the error says
// why.
func (s *swapper) attempt(ctx context.Context) (settled bool, err error) {
	r, began := s.request, time.Now()
	if err := s.load(ctx); err != nil {
		return !isPassing(err), storage.NotApplied(err)
	}
	received := time.Now()
	if _, r.err = r.evaluate(s.now); r.err != nil {
		return true, r.err
	}
	s.queue.engine.updateCache(r, seen{s.now, began, received})
	if s.prepare(); len(s.swaps) == 0 {
		return true, nil
	}
	if !s.mark(sent, r.trouble) {
		return true, storage.NotApplied(context.Canceled)
	}
	swapped, _, err := s.send(ctx)
	switch {
	case swapped:
		return true, nil
	case err == nil:
		return false, fmt.Errorf("%w: %d attempts", storage.ErrContended, r.attempts.Load())
	case errors.Is(err, storage.ErrNotApplied):
		return !isPassing(err), err
	}
	return s.resolve(ctx, err)
}

// isPassing reports whether trying again can help against an error.
func isPassing(err error) bool {
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrContended) || errors.Is(err, context.DeadlineExceeded)
}

// load reads the states and the time.
func (s *swapper) load(ctx context.Context) (err error) {
	e, r, began := s.queue.engine, s.request, time.Now()
	clock, hasClock := e.store.(storage.ServerTime)
	switch {
	case e.options.Clock != nil:
		s.records, err = e.store.Load(ctx, r.Keys...)
		s.now = e.options.Clock()
	case hasClock:
		s.records, s.now, err = clock.LoadNow(ctx, r.Keys...)
	default:
		s.records, err = e.store.Load(ctx, r.Keys...)
		s.now = time.Now()
	}
	if s.queue.note(began, err); err != nil {
		return err
	}
	if len(s.records) != len(r.Keys) {
		return fmt.Errorf("engine: the store answered with %d records to %d keys", len(s.records), len(r.Keys))
	}
	for i := range s.records {
		r.states[i] = stateOf(&s.records[i])
	}
	return nil
}

// stateOf returns the state of a record, nil if and only if the record is absent.
func stateOf(record *storage.Record) []byte {
	if record.Version != 0 && record.State == nil {
		return []byte{}
	}
	return record.State
}

// prepare makes the swaps for what the request changes.
func (s *swapper) prepare() {
	s.swaps = s.swaps[:0]
	version := storage.NewVersion()
	for i, change := range s.request.changes {
		swap := storage.Swap{Key: s.request.Keys[i], Old: s.records[i].Version}
		switch change.Verb {
		case storage.Keep:
			continue
		case storage.Put:
			swap.New = storage.Record{Version: version, State: change.State}
			swap.TTL, swap.Priority, swap.Until = change.TTL, change.Priority, s.now.Add(change.TTL)
		}
		s.swaps = append(s.swaps, swap)
	}
}

// send tries the swaps once.
func (s *swapper) send(ctx context.Context) (swapped bool, current []storage.Record, err error) {
	began := time.Now()
	current, swapped, err = s.queue.engine.store.CompareAndSwap(ctx, s.swaps...)
	s.queue.note(began, err)
	if err == nil && !swapped && len(current) != len(s.swaps) {
		err = storage.NotApplied(fmt.Errorf("engine: the store answered with %d records to %d swaps", len(current), len(s.swaps)))
	}
	return swapped, current, err
}

// resolve finds out whether swaps were stored whose reply was lost. It sends the same swaps
// again until the store answers: they cannot be applied twice.
func (s *swapper) resolve(ctx context.Context, lost error) (settled bool, err error) {
	s.queue.mu.Lock() // a caller that leaves reads this
	s.request.lost = true
	s.queue.mu.Unlock()
	for s.mark(sent, lost); !errors.Is(lost, storage.ErrTorn) && s.backoff.wait(ctx) == nil; s.mark(sent, lost) {
		swapped, current, err := s.send(ctx)
		switch {
		case err != nil:
			lost = err
		case swapped || stored(s.swaps, current):
			return true, nil
		case s.request.givesBack():
			return true, unknown(lost)
		default:
			return false, lost
		}
	}
	return true, unknown(lost)
}

// stored reports whether current shows that swaps were stored: all of them were in one
// instant, so one proves them all.
func stored(swaps []storage.Swap, current []storage.Record) bool {
	onlyDeletes, allAbsent := true, true
	for i, s := range swaps {
		if s.New.Version != 0 && current[i].Version == s.New.Version {
			return true
		}
		onlyDeletes = onlyDeletes && s.New.Version == 0
		allAbsent = allAbsent && current[i].Version == 0
	}
	return onlyDeletes && allAbsent
}
