// Package engine makes decisions on the states in a store, and stores what they change.
//
// The interfaces of the store determine where a decision is made:
//
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
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// DefaultTimeout is Options.Timeout if it is 0.
const DefaultTimeout = time.Second

// Options configure an [Engine].
type Options struct {
	Clock           func() time.Time // returns the time of decisions; nil means the clock of the store
	Timeout         time.Duration    // the maximum duration of a decision; 0 means DefaultTimeout
	DenialCacheTTL  time.Duration    // how long a cached denial is used; 0 means one second, below 0 there is no cache
	DenialCacheSize int              // the maximum number of keys in the cache; 0 means 65,536
	OpenAfter       time.Duration    // of the circuit breaker, see [breaker.New]; 0 means one second
	MaxRoundTrips   int              // the maximum number of round trips in flight; 0 means that of the store, or 2
	MaxQueue        int              // the maximum number of requests that wait for a round trip; 0 means 65,536
}

// Engine decides requests on one store. It is safe for concurrent use. It has no goroutine while no
// request is in progress.
type Engine struct {
	store      storage.Store
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
	e := &Engine{store: store, options: o, shards: make(map[string]*queue)}
	e.transactor, _ = store.(driver.Transactor)
	e.server, _ = store.(driver.Server)
	e.placer, _ = store.(driver.Placer)
	roundTrips := 0
	if s, ok := store.(driver.MaxRoundTrips); ok {
		roundTrips = s.MaxRoundTrips()
		e.onCaller = roundTrips == 0
	}
	e.options.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	e.options.DenialCacheTTL = cmp.Or(o.DenialCacheTTL, time.Second)
	e.options.DenialCacheSize = cmp.Or(o.DenialCacheSize, 1<<16)
	e.options.OpenAfter = cmp.Or(o.OpenAfter, time.Second)
	e.options.MaxRoundTrips = cmp.Or(o.MaxRoundTrips, max(roundTrips, 0), 2)
	e.options.MaxQueue = cmp.Or(o.MaxQueue, 1<<16)
	if e.onCaller {
		e.options.OpenAfter = -1 // a probe would call the store from another goroutine
	}
	if e.options.DenialCacheTTL > 0 {
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
//   - [storage.ErrProgram]: the server decided differently from Go
//   - the error of the context, or a permanent error of the store
func (e *Engine) Decide(ctx context.Context, r *Request) (stats Stats, err error) {
	r.keys = make([]string, len(r.Items))
	for i := range r.Items {
		r.keys[i] = r.Items[i].Key.String()
	}
	switch {
	case ctx.Err() != nil:
		err = storage.NotApplied(ctx.Err())
	case len(r.Items) == 0:
		_, err = r.evaluate(time.Time{})
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
	if err := driver.CheckKeys(r.keys); err != nil {
		return false, err
	}
	r.began = time.Now()
	r.deadline, r.fromTimeout = r.began.Add(e.options.Timeout), true
	if !r.Began.IsZero() {
		r.deadline = r.Began.Add(e.options.Timeout)
	}
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
	q, err := e.queueOf(r)
	if err != nil {
		return false, err
	}
	if err := q.admit(r.keys[0]); err != nil {
		return false, err
	}
	r.bySwaps = !e.takesBatches(r)
	if err = q.decide(ctx, r); err == errDeclined {
		r.bySwaps = true
		err = q.decide(ctx, r)
	}
	if e.denials != nil && r.writes() && !r.allows() {
		e.denials.drop(r.keys)
	}
	if err == nil && e.server != nil && !r.bySwaps {
		e.keepLonger(ctx, r)
	}
	return false, err
}

// keepLonger stores the records again that must be kept longer, after the server has decided the request. This is rare: a rule
// has denied the request, and its limit was lowered after the record was written. keepLonger ignores errors and conflicts,
// because the next denial tries it again.
func (e *Engine) keepLonger(ctx context.Context, r *Request) {
	var swaps []storage.Swap
	for i := range r.Items {
		if item := &r.Items[i]; keepsLonger(item) {
			record := storage.Record{Version: storage.NewVersion(), State: item.Next.State}
			swaps = append(swaps, storage.Swap{Key: r.keys[i], Old: item.Found.Version, New: record, TTL: item.Next.TTL, Until: r.now.Add(item.Next.TTL)})
		}
	}
	if len(swaps) > 0 {
		ctx, cancel := context.WithDeadline(ctx, r.deadline)
		defer cancel()
		_, _, _ = e.store.CompareAndSwap(ctx, swaps...)
	}
}

// keepsLonger reports whether an item only gets a longer TTL.
func keepsLonger(item *driver.Item) bool {
	return item.Next.Verb == driver.Put && item.Found.Version != 0 && bytes.Equal(item.Next.State, item.Found.State)
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
	shard, _, err := e.place(r.keys)
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
