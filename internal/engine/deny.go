package engine

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice/internal/engine/denials"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// deny evaluates the request on the cached states of its keys, and reports whether they deny it. It never allows a request. The
// server's clock is only known to be in an interval. deny evaluates the request at its start, so waiting for RetryAfter is
// enough. RetryAfter must reach beyond its end. If Options.Clock is not nil, deny uses its time instead.
//
// A state has expired if it was cached for longer than its TTL when the request began. If all states are cached but some have
// expired, deny returns one of the expired ones. An error is a panic of the evaluator.
func (e *Engine) deny(r *Request, now time.Time) (denied bool, expired *denials.Denial, err error) {
	if !r.allows() {
		return false, nil, nil
	}
	var earliest, latest time.Time
	for i, key := range r.keys {
		d := e.denials.Find(key)
		if d == nil {
			return false, nil, nil
		}
		if d.IsExpired(r.began) {
			expired = d
		}
		r.Items[i].Found = d.Record
		from, to := d.Between(now)
		if i == 0 || from.After(earliest) {
			earliest = from
		}
		if i == 0 || to.Before(latest) {
			latest = to
		}
	}
	if expired != nil {
		return false, expired, nil
	}
	if e.options.Clock != nil {
		earliest = e.options.Clock()
		latest = earliest
	}
	uncertain := latest.Sub(earliest)
	if uncertain < 0 {
		return false, nil, nil
	}
	_, err = r.evaluate(earliest, false)
	if isPanic(err) {
		return false, nil, err
	}
	if err == nil && !r.changes() {
		if wait, denied := r.Evaluator.Denied(); denied && wait > uncertain {
			return true, nil, nil
		}
	}
	r.attempts.Store(0) // the store decides
	return false, nil, nil
}

// awaitRenewal waits until another request has renewed an expired denial, and tries the cache again. An error means that no
// time is left.
func (e *Engine) awaitRenewal(ctx context.Context, r *Request, expired *denials.Denial) (denied bool, err error) {
	select {
	case <-expired.Renewed():
	case <-ctx.Done():
	}
	denied, _, err = e.deny(r, time.Now())
	if !denied && err == nil && ctx.Err() != nil {
		err = r.timeout(ctx, false)
	}
	return denied, err
}

// updateDenials updates the cache after an evaluation. After a request that was allowed, cached states are out of date: their
// RetryAfter would be too short.
func (e *Engine) updateDenials(r *Request, clock denials.Clock) {
	if !e.denials.IsOn() || !r.allows() {
		return
	}
	wait, denied := r.Evaluator.Denied()
	repeats := denied && wait > 0 && !r.changes() // the same states would deny again
	for i, key := range r.keys {
		switch {
		case repeats:
			record := cloneRecord(r.Items[i].Found)
			record.TTL = 0 // the cache does not extend it
			e.denials.Put(key, record, clock)
		case e.denials.Find(key) != nil:
			e.denials.Drop(clock.Sent, key)
		}
	}
}

// ExpectRefunds says that any process may give units back at any time, because the caller reserves units. Denials are then
// cached for a shorter time. A refund or a reset has the same effect.
func (e *Engine) ExpectRefunds() { e.denials.ExpectRefunds() }

// changes reports whether the evaluation has changed a record. A denial does that if the policy of a user counts
// denials, or if the record must be kept longer.
func (r *Request) changes() bool {
	return slices.ContainsFunc(r.Items, func(i driver.Item) bool { return i.Next.Verb != driver.Keep })
}

func cloneRecord(r storage.Record) storage.Record {
	r.State = bytes.Clone(r.State)
	return r
}

// DropDenials drops all cached denials. Denials of round trips that are in flight are not cached any more.
func (e *Engine) DropDenials() { e.denials.DropAll(time.Now()) }
