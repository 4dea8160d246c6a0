package engine

import (
	"bytes"
	"time"

	"github.com/sluice-go/sluice/internal/engine/denials"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Deny evaluates an Allow on the cached states of its keys, and reports whether they deny it. It never allows one. now is
// the local time. evaluate decides the items at the time that it gets, sets their Next, and returns what
// Evaluator.Denied would. Deny sets their Found, and calls evaluate at most once, in the goroutine of the caller.
//
// The server's clock is only known to be in an interval. The items are evaluated at its start, so waiting for RetryAfter is enough.
// RetryAfter must reach beyond its end. If Options.Clock is not nil, Deny uses its time instead.
func (e *Engine) Deny(now time.Time, items []driver.Item, evaluate func(now time.Time) (retryAfter time.Duration, denied bool)) bool {
	if !e.denials.IsOn() {
		return false
	}
	var key [storage.MaxKey]byte
	var newest *denials.Denial
	for i := range items {
		d := e.denials.Find(items[i].Key.Append(key[:0]))
		if d == nil || !d.CanBeUsed(now) {
			return false
		}
		if items[i].Found = d.RecordAt(now); newest == nil || d.Sent.After(newest.Sent) {
			newest = d
		}
	}
	if newest == nil {
		return false
	}
	earliest, latest := newest.Between(now)
	if e.options.Clock != nil {
		earliest = e.options.Clock()
		latest = earliest
	}
	wait, denied := evaluate(earliest)
	return denied && wait > latest.Sub(earliest) && !changes(items)
}

// updateDenials updates the cache after an evaluation. After a request that was allowed, cached states are out of date: their
// RetryAfter would be too short.
func (e *Engine) updateDenials(r *Request, clock denials.Clock) {
	if !e.denials.IsOn() || !r.allows() {
		return
	}
	wait, denied := r.Evaluator.Denied()
	repeats := denied && wait > 0 && !changes(r.Items) // the same states would deny again
	for i, key := range r.keys {
		switch {
		case repeats:
			e.denials.Put(key, cloneRecord(r.Items[i].Found), clock)
		case e.denials.Find([]byte(key)) != nil:
			e.denials.Drop(clock.Sent, key)
		}
	}
}

// ExpectRefunds says that any process may give units back at any time, because the caller reserves, refunds or resets. Denials are
// then cached for a shorter time.
func (e *Engine) ExpectRefunds() { e.denials.ExpectRefunds() }

// changes reports whether an evaluation has changed a record. A denial does that if the policy of a user counts
// denials, or if the record must be kept longer.
func changes(items []driver.Item) bool {
	for i := range items {
		if items[i].Next.Verb != driver.Keep {
			return true
		}
	}
	return false
}

func cloneRecord(r storage.Record) storage.Record {
	r.State = bytes.Clone(r.State)
	return r
}

// DropDenials drops all cached denials. Denials of round trips that are in flight are not cached any more.
func (e *Engine) DropDenials() { e.denials.DropAll(time.Now()) }
