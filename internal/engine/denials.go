package engine

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// denials caches the states of requests that were denied. It only ever denies: a state that
// is out of date can deny too long, for at most ttl, but never allow.
//
// It is a table of sets. Readers take no lock.
type denials struct {
	ttl    time.Duration
	seed   maphash.Seed
	blocks []atomic.Pointer[denialBlock] // made when they are needed
}

const (
	denialSets  = 64 // in a block
	denialSlots = 8  // in a set
)

type denialBlock [denialSets]denialSet

type denialSet struct {
	slots   [denialSlots]atomic.Pointer[denial]
	mu      sync.Mutex
	oldest  int       // the slot that is overwritten next
	dropped time.Time // when a key of the set was last dropped
}

// denial is the state of one key that a denied request saw.
type denial struct {
	hash  uint64
	key   string
	state []byte
	seen
	renewing atomic.Bool
	renewed  chan struct{} // closed when the request that renews an expired denial has ended
}

// seen says when the server's clock stood at `at`: at some instant between sent and received, by
// the local monotonic clock.
type seen struct{ at, sent, received time.Time }

func newDenials(keys int, ttl time.Duration) *denials {
	const block = denialSets * denialSlots
	return &denials{ttl: ttl, seed: maphash.MakeSeed(), blocks: make([]atomic.Pointer[denialBlock], (keys+block-1)/block)}
}

// deny evaluates the request on the cached states of its keys, and reports whether that denies
// it. The server's clock is known as an interval. The request is evaluated at its beginning, so that
// waiting for RetryAfter is enough, and RetryAfter must reach beyond its end. If clock is not
// nil, it tells the time instead. A state is not expired if it was not when the request began. If all states are cached but some are expired, deny returns one of these.
func (c *denials) deny(r *Request, now time.Time, clock func() time.Time) (denied bool, expired *denial) {
	var earliest, latest time.Time
	for i, key := range r.Keys {
		d := c.find(key)
		if d == nil {
			return false, nil
		}
		if r.began.Sub(d.sent) >= c.ttl {
			expired = d
		}
		r.states[i] = d.state
		from, to := d.interval(now)
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
	return uncertain >= 0 && r.isDenied(earliest, uncertain), nil
}

// answerFromCache reports whether the cache denies the request. If a denial has expired, one request
// renews it: the others wait for that one, and then look again. renewing is what the request must close when
// it has ended.
func (e *Engine) answerFromCache(ctx context.Context, r *Request) (denied bool, renewing chan struct{}) {
	denied, expired := e.denials.deny(r, r.began, e.options.Clock)
	switch {
	case expired == nil:
		return denied, nil
	case expired.renewing.CompareAndSwap(false, true):
		return false, expired.renewed
	}
	timer := time.NewTimer(time.Until(r.deadline))
	defer timer.Stop()
	select {
	case <-expired.renewed:
	case <-ctx.Done():
	case <-timer.C:
	}
	denied, _ = e.denials.deny(r, time.Now(), e.options.Clock)
	return denied, nil
}

// isDenied reports whether the request is denied from some time on, for longer than d.
func (r *Request) isDenied(from time.Time, d time.Duration) bool {
	r.attempts.Store(0)
	_, err := r.evaluate(from)
	if err == nil {
		if wait, denied := r.Evaluator.Denied(); denied && wait > d {
			return true
		}
	}
	if r.panicked != nil {
		return true
	}
	r.attempts.Store(0)
	return false
}

// interval returns the earliest and the latest time that the server's clock can show now.
func (s *seen) interval(now time.Time) (earliest, latest time.Time) {
	return s.at.Add(now.Sub(s.received)), s.at.Add(now.Sub(s.sent))
}

// put caches the states that a denied request saw, unless its key was dropped since it was sent.
func (c *denials) put(r *Request, s seen) {
	for i, key := range r.Keys {
		set, hash := c.set(key, true)
		d := &denial{key: key, hash: hash, seen: s, renewed: make(chan struct{})}
		if state := r.states[i]; state != nil {
			d.state = append([]byte{}, state...)
		}
		set.put(d)
	}
}

// remove removes the denials of keys.
func (c *denials) remove(keys []string) {
	for _, key := range keys {
		if set, hash := c.set(key, false); set != nil {
			set.remove(hash, key)
		}
	}
}

// drop removes what is cached of keys, and keeps denials out that were sent before.
func (c *denials) drop(keys []string) {
	now := time.Now()
	for _, key := range keys {
		set, hash := c.set(key, true)
		set.mu.Lock()
		set.remove(hash, key)
		set.dropped = now
		set.mu.Unlock()
	}
}

func (c *denials) find(key string) *denial {
	set, hash := c.set(key, false)
	if set == nil {
		return nil
	}
	if slot := set.find(hash, key); slot >= 0 {
		return set.slots[slot].Load()
	}
	return nil
}

// set returns the set of a key, nil if there is none yet and none is to be made, and the hash of the key.
func (c *denials) set(key string, create bool) (set *denialSet, hash uint64) {
	hash = maphash.String(c.seed, key)
	i := hash >> 32 * uint64(len(c.blocks)) >> 32
	block := c.blocks[i].Load()
	if block == nil {
		if !create {
			return nil, hash
		}
		c.blocks[i].CompareAndSwap(nil, new(denialBlock))
		block = c.blocks[i].Load()
	}
	return &block[hash%denialSets], hash
}

// find returns the slot of a key, or -1.
func (s *denialSet) find(hash uint64, key string) int {
	for i := range s.slots {
		if d := s.slots[i].Load(); d != nil && d.hash == hash && d.key == key {
			return i
		}
	}
	return -1
}

func (s *denialSet) remove(hash uint64, key string) {
	if slot := s.find(hash, key); slot >= 0 {
		s.slots[slot].Store(nil)
	}
}

func (s *denialSet) put(d *denial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !d.sent.After(s.dropped) {
		return
	}
	slot := s.find(d.hash, d.key)
	if slot < 0 {
		slot = s.oldest
		s.oldest = (slot + 1) % denialSlots
	}
	s.slots[slot].Store(d)
}
