// Package engine makes decisions on the states in a store, and stores what they change.
//
// The interfaces of the store determine where a decision is made:
//
//	driver.InPlace     in Go, under a lock of the store
//	driver.Transactor  in Go, inside a transaction that serves all requests of a batch
//	driver.Server      on the server, in one round trip that serves all requests of a batch
//	any other store    in Go: Load, evaluate, CompareAndSwap, and again after a conflict
//
// A request whose policy has no program for the server is decided by swaps too.
//
// Requests that wait while enough round trips are in flight share the next one. A call
// returns when its context ends or its timeout has passed, even if the store hangs. There is one
// exception: a caller that sends its own request waits until the store returns. A caller sends its
// own request only to a driver.Server that has answered within the last 10 ms.
//
// The decision itself, in Go, is always Evaluator.Evaluate. If the server has decided, the engine
// evaluates the request on the states that the server found, and compares the outcomes.
package engine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// The defaults of Options.
const (
	DefaultTimeout         = time.Second
	DefaultDenialCacheTTL  = time.Second
	DefaultDenialCacheSize = 1 << 16
	DefaultOpenAfter       = time.Second
	DefaultMaxRoundTrips   = 2
	DefaultMaxQueue        = 1 << 16
)

// Options configure an [Engine]. A zero field means its default.
type Options struct {
	// Clock returns the time of decisions; nil means the clock of the store.
	Clock func() time.Time
	// Timeout is the maximum duration of a decision.
	Timeout time.Duration
	// DenialCacheTTL is how long a cached denial is used; a negative value disables the cache.
	DenialCacheTTL time.Duration
	// DenialCacheSize is the maximum number of keys in the cache.
	DenialCacheSize int
	// OpenAfter is how long the store must fail before the circuit breaker opens. Negative means never.
	OpenAfter time.Duration
	// MaxRoundTrips is the maximum number of round trips in flight.
	MaxRoundTrips int
	// MaxQueue is the maximum number of requests that wait for a round trip.
	MaxQueue int
	// KeepsNoKeys means that the store is a driver.InPlace that keeps no key after Update.
	KeepsNoKeys bool
}

// Engine decides requests on one store. It is safe for concurrent use. It has no goroutine while no
// request is in progress.
type Engine struct {
	store      storage.Store
	inPlace    driver.InPlace    // or nil
	transactor driver.Transactor // or nil
	server     driver.Server     // or nil
	placer     driver.Placer     // or nil
	options    Options
	onCaller   bool // the store must be called by the goroutine of the caller
	denials    *denials

	whole  *queue // if the store is one server
	mu     sync.Mutex
	shards map[string]*queue // otherwise, by shard
}

// Stats describe how a decision was made.
type Stats struct {
	Attempts int  // how often the request was evaluated
	Cached   bool // a denial from the cache
}

// New returns an engine that uses store.
func New(store storage.Store, o Options) *Engine {
	e := &Engine{store: store, shards: make(map[string]*queue)}
	e.inPlace, _ = store.(driver.InPlace)
	e.transactor, _ = store.(driver.Transactor)
	e.server, _ = store.(driver.Server)
	e.placer, _ = store.(driver.Placer)
	roundTrips := DefaultMaxRoundTrips
	if s, ok := store.(driver.MaxRoundTrips); ok {
		e.onCaller = s.MaxRoundTrips() == 0
		roundTrips = cmp.Or(max(s.MaxRoundTrips(), 0), roundTrips)
	}
	e.options = Options{
		Clock:           o.Clock,
		Timeout:         cmp.Or(o.Timeout, DefaultTimeout),
		DenialCacheTTL:  cmp.Or(o.DenialCacheTTL, DefaultDenialCacheTTL),
		DenialCacheSize: cmp.Or(o.DenialCacheSize, DefaultDenialCacheSize),
		OpenAfter:       cmp.Or(o.OpenAfter, DefaultOpenAfter),
		MaxRoundTrips:   cmp.Or(o.MaxRoundTrips, roundTrips),
		MaxQueue:        cmp.Or(o.MaxQueue, DefaultMaxQueue),
		KeepsNoKeys:     o.KeepsNoKeys,
	}
	if e.onCaller {
		e.options.OpenAfter = -1 // a probe would call the store from another goroutine
	}
	if e.inPlace == nil && e.options.DenialCacheTTL > 0 {
		e.denials = &denials{ttl: e.options.DenialCacheTTL, size: e.options.DenialCacheSize, byKey: make(map[string]*denial)}
	}
	e.whole = newQueue(e)
	return e
}

// Decide decides the request and stores what it changes, all of it or nothing. The errors are
//   - an error of the evaluator, unchanged; nothing was stored
//   - [storage.ErrKey], [storage.ErrDuplicateKey]: the keys cannot be stored
//   - [storage.ErrContended]: swaps had conflicts with other writers until the timeout
//   - [storage.ErrUnavailable]: the store did not answer within the timeout, or the circuit breaker is open
//   - [storage.ErrOverloaded]: too many requests wait already
//   - [storage.ErrOutcomeUnknown]: the request may have been stored
//   - [storage.ErrProgram]: the server decided otherwise than Go
//   - the error of the context, or a permanent error of the store
func (e *Engine) Decide(ctx context.Context, r *Request) (stats Stats, err error) {
	n := len(r.Keys)
	r.states, r.changes = slices.Grow(r.states[:0], n)[:n], slices.Grow(r.changes[:0], n)[:n]
	switch {
	case ctx.Err() != nil:
		err = storage.NotApplied(ctx.Err())
	case len(r.Keys) == 0:
		_, err = r.evaluate(time.Time{})
	case e.inPlace != nil:
		if !e.options.KeepsNoKeys {
			r.cloneKeys()
		}
		r.update.Now = e.options.Clock()
		err = e.inPlace.Update(ctx, r.update.Now, r.Keys, r)
	default:
		stats.Cached, err = e.decide(ctx, r)
	}
	stats.Attempts = int(r.attempts.Load())
	if r.state != abandoned && r.panicked != nil {
		panic(r.panicked)
	}
	return stats, err
}

// decide decides on a store that needs a round trip.
func (e *Engine) decide(ctx context.Context, r *Request) (cached bool, err error) {
	if err := driver.CheckKeys(r.Keys); err != nil {
		return false, err
	}
	r.began = time.Now()
	r.deadline, r.fromTimeout = r.began.Add(e.options.Timeout), true
	if end, ok := ctx.Deadline(); ok && !end.After(r.deadline) {
		r.deadline, r.fromTimeout = end, false
	}
	if e.denials != nil && r.allows() {
		denied, renewing, err := e.answerFromCache(ctx, r)
		if denied || err != nil {
			return denied, err
		}
		if renewing != nil {
			defer close(renewing)
		}
	}
	r.cloneKeys()
	q, err := e.queueOf(r)
	if err != nil {
		return false, err
	}
	if err := q.admit(r.Keys[0]); err != nil {
		return false, err
	}
	r.bySwaps = !e.takesBatches(r)
	if err = q.decide(ctx, r); err == errDeclined {
		r.bySwaps = true
		err = q.decide(ctx, r)
	}
	if e.denials != nil && r.writes() && !r.allows() {
		e.denials.drop(r.Keys)
	}
	return false, err
}

// takesBatches reports whether the store can decide the request in a batch.
func (e *Engine) takesBatches(r *Request) bool {
	if e.server == nil {
		return e.transactor != nil
	}
	return !slices.ContainsFunc(r.Uses, func(u Use) bool { return !e.runs(&u) })
}

// queueOf returns the queue for the server that keeps the keys of a request.
func (e *Engine) queueOf(r *Request) (*queue, error) {
	shard, _, err := e.place(r.Keys)
	if err != nil || shard == "" {
		return e.whole, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.shards[shard]
	if q == nil {
		q = newQueue(e)
		e.shards[shard] = q
	}
	return q, nil
}

// place returns where keys are kept.
func (e *Engine) place(keys []string) (shard, slot string, err error) {
	if e.placer == nil {
		return "", "", nil
	}
	return e.placer.Place(keys...)
}
