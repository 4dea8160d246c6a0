// Package denials is the denial cache: the states that denied requests were evaluated on. An outdated state can deny too
// long, for at most twice the TTL of the cache.
package denials

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// Cache is a denial cache. It is safe for concurrent use.
type Cache struct {
	ttl     time.Duration
	size    int
	refunds atomic.Bool // see ExpectRefunds
	mu      sync.RWMutex
	byKey   map[string]*Denial
	dropped [1024]time.Time // when the last drop of a key began, by the hash of the key
	seed    maphash.Seed
}

// New returns an empty cache of up to size keys. If ttl is not above 0, it caches nothing.
func New(ttl time.Duration, size int) *Cache {
	return &Cache{ttl: ttl, size: size, byKey: make(map[string]*Denial), seed: maphash.MakeSeed()}
}

// Denial is the record of one key that a denied request was evaluated on.
type Denial struct {
	Record storage.Record
	Clock
	ttl      time.Duration // how long it is used; if it is 0, only the version of the record is of interest
	renewing atomic.Bool   // a caller renews it
}

// Clock says when the server's clock showed At: at some instant between Sent and Received, by the local monotonic clock.
type Clock struct{ At, Sent, Received time.Time }

// Between returns the earliest and the latest time that the server's clock can show at a local time.
func (c *Clock) Between(now time.Time) (earliest, latest time.Time) {
	return c.At.Add(now.Sub(c.Received)), c.At.Add(now.Sub(c.Sent))
}

// RecordAt returns the record with the TTL that is left at a local time, at the least.
func (d *Denial) RecordAt(now time.Time) storage.Record {
	r := d.Record
	if r.TTL > 0 { // otherwise it is kept for ever
		r.TTL = max(r.TTL-now.Sub(d.Sent), 1)
	}
	return r
}

// CanBeUsed reports whether a caller can use the denial at a local time. After the TTL, it returns false to the first caller, who
// renews the denial. Meanwhile the others can use it, for up to another TTL. If they all asked the store, a flood would delay the
// renewal.
func (d *Denial) CanBeUsed(now time.Time) bool {
	left := d.ttl - now.Sub(d.Sent)
	return left > 0 || left > -d.ttl && !d.renewing.CompareAndSwap(false, true)
}

// IsOn reports whether the cache caches denials.
func (c *Cache) IsOn() bool { return c.ttl > 0 }

// Find returns the cached denial of a key, or nil.
func (c *Cache) Find(key []byte) *Denial {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byKey[string(key)]
}

// Drop drops the cached denials of keys. A round trip that was sent no later than sent caches no denial any more, neither
// of these keys nor of keys with the same hash.
func (c *Cache) Drop(sent time.Time, keys ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		if at := c.droppedAt(key); sent.After(*at) {
			*at = sent
		}
		if d := c.byKey[key]; d != nil && !d.Sent.After(sent) {
			delete(c.byKey, key)
		}
	}
}

// DropAll drops all cached denials. A round trip that was sent no later than sent caches no denial any more.
func (c *Cache) DropAll(sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.byKey)
	for i := range c.dropped {
		c.dropped[i] = sent
	}
}

func (c *Cache) droppedAt(key string) *time.Time {
	return &c.dropped[maphash.String(c.seed, key)%uint64(len(c.dropped))]
}

// refundTTL is how long a denial is cached if units may be given back and nobody has written the record since the last
// denial. It doubles with each further denial on the same record. If somebody has written the record, the denial is not
// cached. Otherwise a process would take the units that it gives back before others notice.
const refundTTL = time.Millisecond

// ExpectRefunds says that any process may give units back at any time. Denials are then cached for a shorter time.
func (c *Cache) ExpectRefunds() { c.refunds.Store(true) }

// Put caches a denial, unless the cache has a later one of its key, or has dropped one. If the cache is full, it replaces any
// other denial. The caller must not change the state of the record.
func (c *Cache) Put(key string, record storage.Record, clock Clock) {
	d := &Denial{Record: record, Clock: clock, ttl: c.ttl}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.byKey[key]
	if !d.Sent.After(*c.droppedAt(key)) || old != nil && old.Sent.After(d.Sent) {
		return
	}
	if c.refunds.Load() {
		if d.ttl = 0; old != nil && old.Record.Version == d.Record.Version {
			d.ttl = old.ttl
			if d.Sent.After(old.Sent) {
				d.ttl = min(max(2*old.ttl, refundTTL), c.ttl)
			}
		}
	}
	if old == nil && len(c.byKey) >= c.size {
		for other := range c.byKey {
			delete(c.byKey, other)
			break
		}
	}
	c.byKey[key] = d
}
