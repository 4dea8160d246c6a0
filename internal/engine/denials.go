package engine

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// denials is the denial cache: the states that denied requests were evaluated on. It never allows a request. An outdated
// state can deny too long, for at most ttl.
type denials struct {
	ttl     time.Duration
	refunds atomic.Bool // units may be given back; see Engine.ExpectRefunds
	size    int         // the maximum number of keys
	mu      sync.RWMutex
	byKey   map[string]*denial
	evicted time.Time // the latest sent of the evicted entries that replaced a dropped denial
}

// denial is the record of one key that a denied request was evaluated on.
type denial struct {
	key     string
	dropped bool // the entry is no denial, but denials of earlier round trips are not cached
	record  storage.Record
	ttl     time.Duration // how long it is used
	clockReading
	renewing atomic.Bool
	renewed  chan struct{} // is closed when the request that renews an expired denial has ended
}

// clockReading says when the server's clock showed `at`: at some instant between sent and received, by
// the local monotonic clock.
type clockReading struct{ at, sent, received time.Time }

// deny evaluates the request on the cached states of its keys, and reports whether they deny it. The server's clock is only
// known to be in an interval. deny evaluates the request at its start, so waiting for RetryAfter is enough. RetryAfter must
// reach beyond its end. If clock is not nil, deny uses its time instead.
//
// A state has expired if it was cached for longer than its ttl when the request began. If all states are cached but some have
// expired, deny returns one of the expired ones.
func (c *denials) deny(r *Request, now time.Time, clock func() time.Time) (denied bool, expired *denial) {
	var earliest, latest time.Time
	for i, key := range r.keys {
		d := c.find(key)
		if d == nil {
			return false, nil
		}
		if r.began.Sub(d.sent) >= d.ttl {
			expired = d
		}
		r.Items[i].Found = d.record
		from, to := d.at.Add(now.Sub(d.received)), d.at.Add(now.Sub(d.sent))
		if i == 0 || from.After(earliest) {
			earliest = from
		}
		if i == 0 || to.Before(latest) {
			latest = to
		}
	}
	if expired != nil {
		return false, expired
	}
	if clock != nil {
		earliest = clock()
		latest = earliest
	}
	uncertain := latest.Sub(earliest)
	if uncertain < 0 {
		return false, nil
	}
	if _, err := r.evaluate(earliest, false); err == nil && !r.changes() {
		if wait, denied := r.Evaluator.Denied(); denied && wait > uncertain {
			return true, nil
		}
	}
	r.attempts.Store(0)
	return r.panicked != nil, nil // Decide raises the panic
}

// answerFromCache reports whether the cache denies the request. If a denial has expired, one request renews it by a round
// trip, and must close renewing when it has ended. The others wait for that and try the cache again. An error means that no
// time is left.
func (e *Engine) answerFromCache(ctx context.Context, r *Request) (denied bool, renewing chan struct{}, err error) {
	denied, expired := e.denials.deny(r, r.began, e.options.Clock)
	switch {
	case expired == nil:
		return denied, nil, nil
	case expired.renewing.CompareAndSwap(false, true):
		return false, expired.renewed, nil
	}
	select {
	case <-expired.renewed:
	case <-ctx.Done():
	case <-time.After(time.Until(r.deadline)):
	}
	now := time.Now()
	denied, _ = e.denials.deny(r, now, e.options.Clock)
	if ended := ctx.Err(); !denied && (ended != nil || !now.Before(r.deadline)) {
		err = r.timeout(ended, false)
	}
	return denied, nil, err
}

// updateCache updates the denial cache after an evaluation. After a request that was allowed,
// cached states are out of date: their RetryAfter would be too short.
func (e *Engine) updateCache(r *Request, clock clockReading) {
	if e.denials == nil || r.err != nil || r.panicked != nil || !r.allows() {
		return
	}
	_, denied := r.Evaluator.Denied()
	repeats := denied && !r.changes() // the same states would deny again
	for i, key := range r.keys {
		switch {
		case repeats:
			record := cloneRecord(r.Items[i].Found)
			record.TTL = 0 // the cache does not extend it
			e.denials.put(&denial{key: key, record: record, clockReading: clock, renewed: make(chan struct{})})
		case e.denials.find(key) != nil:
			e.denials.put(&denial{key: key, clockReading: clock, dropped: true})
		}
	}
}

// changes reports whether the evaluation has changed a record. A denial does that if the policy of a user counts
// denials, or if the record must be kept longer.
func (r *Request) changes() bool {
	return slices.ContainsFunc(r.Items, func(i driver.Item) bool { return i.Next.Verb != driver.Keep })
}

func cloneRecord(r storage.Record) storage.Record {
	r.State = bytes.Clone(r.State)
	return r
}

// drop drops the cached denials of keys. Denials of round trips that began earlier are not cached
// any more.
func (c *denials) drop(keys []string) {
	for _, key := range keys {
		c.put(&denial{key: key, clockReading: clockReading{sent: time.Now()}, dropped: true})
	}
}

// find returns the cached denial of a key, or nil.
func (c *denials) find(key string) *denial {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if d := c.byKey[key]; d != nil && !d.dropped {
		return d
	}
	return nil
}

// refundTTL is how long a denial is cached if units may be given back and nobody has written the record since the last
// denial. It doubles with each further denial on the same record. If somebody has written the record, the denial is not
// cached. Otherwise a process would take the units that it gives back before others notice.
const refundTTL = time.Millisecond

// ExpectRefunds says that any process may give units back at any time, because the caller reserves units. Denials are then
// cached for a shorter time. A refund or a reset has the same effect.
func (e *Engine) ExpectRefunds() {
	if e.denials != nil {
		e.denials.refunds.Store(true)
	}
}

// put stores d, unless the cache has a later entry of its key, or may have evicted one that replaced a dropped denial. If the
// cache is full, d replaces any other entry.
func (c *denials) put(d *denial) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.byKey[d.key]
	if old != nil && (old.sent.After(d.sent) || old.dropped && old.sent.Equal(d.sent)) ||
		old == nil && !d.dropped && !d.sent.After(c.evicted) {
		return
	}
	d.ttl = c.ttl
	if c.refunds.Load() {
		if d.ttl = 0; old != nil && old.record.Version == d.record.Version {
			d.ttl = old.ttl
			if d.sent.After(old.sent) {
				d.ttl = min(max(2*old.ttl, refundTTL), c.ttl)
			}
		}
		d.dropped = d.dropped || d.ttl == 0 // it is not used
	}
	if old == nil && len(c.byKey) >= c.size {
		for key, other := range c.byKey {
			if other.dropped && other.sent.After(c.evicted) {
				c.evicted = other.sent
			}
			delete(c.byKey, key)
			break
		}
	}
	c.byKey[d.key] = d
}
