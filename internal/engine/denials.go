package engine

import (
	"bytes"
	"context"
	"hash/maphash"
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
	ttl     time.Duration    // not above 0: nothing is cached
	clock   func() time.Time // of Options
	refunds atomic.Bool      // units may be given back; see Engine.ExpectRefunds
	size    int              // the maximum number of keys
	mu      sync.RWMutex
	byKey   map[string]*denial
	dropped [4096]time.Time // when the last drop of a key began, by the hash of the key
	seed    maphash.Seed
}

// denial is the record of one key that a denied request was evaluated on.
type denial struct {
	key    string
	record storage.Record
	ttl    time.Duration // how long it is used; 0 if only the version of the record is of interest
	clockReading
	renewing atomic.Bool
	renewed  chan struct{} // is closed when the request that renews an expired denial has ended
}

// clockReading says when the server's clock showed `at`: at some instant between sent and received, by
// the local monotonic clock.
type clockReading struct{ at, sent, received time.Time }

// deny evaluates the request on the cached states of its keys, and reports whether they deny it. The server's clock is only
// known to be in an interval. deny evaluates the request at its start, so waiting for RetryAfter is enough. RetryAfter must
// reach beyond its end. If c.clock is not nil, deny uses its time instead.
//
// A state has expired if it was cached for longer than its ttl when the request began. If all states are cached but some have
// expired, deny returns one of the expired ones. An error is a panic of the evaluator.
func (c *denials) deny(r *Request, now time.Time) (denied bool, expired *denial, err error) {
	if !r.allows() {
		return false, nil, nil
	}
	var earliest, latest time.Time
	for i, key := range r.keys {
		d := c.find(key)
		if d == nil {
			return false, nil, nil
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
		return false, expired, nil
	}
	if c.clock != nil {
		earliest = c.clock()
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
func (c *denials) awaitRenewal(ctx context.Context, r *Request, expired *denial) (denied bool, err error) {
	select {
	case <-expired.renewed:
	case <-ctx.Done():
	}
	denied, _, err = c.deny(r, time.Now())
	if !denied && err == nil && ctx.Err() != nil {
		err = r.timeout(ctx, false)
	}
	return denied, err
}

// update updates the cache after an evaluation. After a request that was allowed, cached states are out of date: their RetryAfter
// would be too short.
func (c *denials) update(r *Request, clock clockReading) {
	if c.ttl <= 0 || !r.allows() {
		return
	}
	wait, denied := r.Evaluator.Denied()
	repeats := denied && wait > 0 && !r.changes() // the same states would deny again
	for i, key := range r.keys {
		switch {
		case repeats:
			record := cloneRecord(r.Items[i].Found)
			record.TTL = 0 // the cache does not extend it
			c.put(&denial{key: key, record: record, clockReading: clock, renewed: make(chan struct{})})
		case c.find(key) != nil:
			c.drop(clock.sent, key)
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

// drop drops the cached denials of keys. Their denials, and those of keys with the same hash, of round trips that were
// sent no later than a time are not cached any more.
func (c *denials) drop(sent time.Time, keys ...string) {
	if c.ttl <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		if at := c.droppedAt(key); sent.After(*at) {
			*at = sent
		}
		if d := c.byKey[key]; d != nil && !d.sent.After(sent) {
			delete(c.byKey, key)
		}
	}
}

// DropDenials drops all cached denials. Denials of round trips that are in flight are not cached any more.
func (e *Engine) DropDenials() {
	c := e.denials
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.byKey)
	for i, now := 0, time.Now(); i < len(c.dropped); i++ {
		c.dropped[i] = now
	}
}

func (c *denials) droppedAt(key string) *time.Time {
	return &c.dropped[maphash.String(c.seed, key)%uint64(len(c.dropped))]
}

// find returns the cached denial of a key, or nil.
func (c *denials) find(key string) *denial {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if d := c.byKey[key]; d != nil && d.ttl > 0 {
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
func (e *Engine) ExpectRefunds() { e.denials.refunds.Store(true) }

// put stores d, unless the cache has a later denial of its key, or has dropped one. If the cache is full, d replaces any other
// denial.
func (c *denials) put(d *denial) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.byKey[d.key]
	if !d.sent.After(*c.droppedAt(d.key)) || old != nil && old.sent.After(d.sent) {
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
	}
	if old == nil && len(c.byKey) >= c.size {
		for key := range c.byKey {
			delete(c.byKey, key)
			break
		}
	}
	c.byKey[d.key] = d
}
