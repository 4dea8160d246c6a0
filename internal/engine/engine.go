// Package engine makes decisions on the states in a store, and stores what they change. The interfaces of the store determine
// how:
//
//	transaction  in Go, inside a transaction of a driver.Transactor that serves all requests of a batch
//	server       on a driver.Server, in one round trip that serves all requests of a batch
//	swaps        in Go: Load, evaluate, CompareAndSwap, and again after a conflict
//
// With a driver.Server, swaps decide a request that has no program, or that the server declines. A Peek is a Load.
//
// Requests that wait while enough round trips are in flight share the next one. Their callers return when their context ends
// or their timeout has passed, even if the store hangs. A caller makes its own swaps, and sends its own request to a
// driver.Server that has just answered. It then returns when the store does.
//
// Evaluator.Evaluate always makes the decision in Go. If the server has decided, the engine evaluates the request on the
// states that the server found, and compares the outcomes.
package engine

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/engine/breaker"
	"github.com/sluice-go/sluice/internal/engine/denials"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// DefaultTimeout is the default of Options.Timeout.
const DefaultTimeout = time.Second

// Options configure an [Engine].
type Options struct {
	Clock           func() time.Time // returns the time of decisions; nil means the clock of the store
	Timeout         time.Duration    // the maximum duration of a decision; 0 means DefaultTimeout
	DenialCacheTTL  time.Duration    // 0 means one second, below 0 there is no cache
	DenialCacheSize int              // the maximum number of keys; 0 means 65,536
	OpenAfter       time.Duration    // of [breaker.New]; 0 means one second
	MaxRoundTrips   int              // the maximum number of batches in flight; 0 means 1 to a driver.Transactor, and 2 to a driver.Server
	MaxQueue        int              // the maximum number of requests that wait to be sent to a server; 0 means 65,536
}

// Engine decides requests on one store. It is safe for concurrent use. While no request is in progress, it has no goroutine.
type Engine struct {
	store      storage.Store
	transactor driver.Transactor // or nil
	server     driver.Server     // or nil
	options    Options
	denials    *denials.Cache
	queues     sync.Map // a *queue by the server of driver.Server.Place
}

// New returns an engine that uses store.
func New(store storage.Store, o Options) *Engine {
	e := &Engine{store: store, options: o}
	e.transactor, _ = store.(driver.Transactor)
	e.server, _ = store.(driver.Server)
	roundTrips := 2
	if e.transactor != nil {
		roundTrips = 1 // one transaction excludes the others
	}
	e.options.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	e.options.DenialCacheTTL = cmp.Or(o.DenialCacheTTL, time.Second)
	e.options.DenialCacheSize = cmp.Or(o.DenialCacheSize, 1<<16)
	e.options.OpenAfter = cmp.Or(o.OpenAfter, time.Second)
	e.options.MaxRoundTrips = cmp.Or(o.MaxRoundTrips, roundTrips)
	e.options.MaxQueue = cmp.Or(o.MaxQueue, 1<<16)
	e.denials = denials.New(e.options.DenialCacheTTL, e.options.DenialCacheSize)
	return e
}

// Decide decides the request and stores what it changes, all of it or nothing. attempts is how often it was evaluated. The errors are
// those of package storage, an error of the evaluator (nothing was stored), the error of the context, or a permanent error of the
// store.
func (e *Engine) Decide(ctx context.Context, r *Request) (attempts int, err error) {
	r.keys = keysOf(r.Items)
	switch {
	case ctx.Err() != nil:
		err = storage.NotApplied(ctx.Err())
	case len(r.Items) == 0:
		_, err = r.evaluate(time.Time{}, false)
	default:
		err = e.decide(ctx, r)
	}
	if p, ok := err.(*panicked); ok {
		panic(p.value)
	}
	return int(r.evaluations.Load()), err
}

// decide decides on a store that needs a round trip.
func (e *Engine) decide(ctx context.Context, r *Request) error {
	now := time.Now()
	if end, ok := ctx.Deadline(); ok && !now.Before(end) { // its timer may not have fired yet
		return storage.NotApplied(context.DeadlineExceeded)
	}
	c := &call{Request: r, began: cmp.Or(r.Began, now)}
	ctx, cancel := context.WithDeadlineCause(ctx, c.began.Add(e.options.Timeout), errNoAnswer)
	defer cancel()
	c.deadline, _ = ctx.Deadline()
	q, slot, err := e.queueOf(r.keys)
	if err != nil {
		return err
	}
	c.slot = slot
	err = ErrDeclined // unless a batch decides it
	if e.takesBatches(r) {
		err = q.repeat(ctx, c, q.batch)
	}
	if err == ErrDeclined {
		err = q.swap(ctx, c)
	}
	if c.admitted && r.writes() && !r.allows() { // otherwise nothing was sent that changes a cached state
		e.denials.Drop(time.Now(), r.keys...)
	}
	return err
}

// keysOf returns the texts of the keys.
func keysOf(items []driver.Item) []string {
	keys := make([]string, len(items))
	for i := range items {
		keys[i] = items[i].Key.String()
	}
	return keys
}

// Await waits until done is closed, like a request for these items that waits for another one. Its errors are those of Decide.
func (e *Engine) Await(ctx context.Context, done <-chan struct{}, items []driver.Item) error {
	q, _, err := e.queueOf(keysOf(items))
	if err == nil {
		err = q.await(ctx, new(call), done)
	}
	if err != nil {
		return storage.NotApplied(err)
	}
	return nil
}

// Program returns the program of a policy, for [Request].Uses with a Cost and an Op that is Allow, Refund or Charge. It is nil if
// the store cannot run it.
func (e *Engine) Program(p algo.Policy) *algo.Program {
	if e.server == nil {
		return nil
	}
	if program := policy.ProgramOf(p); program != nil && e.server.Runs(program) {
		return program
	}
	return nil
}

// takesBatches reports whether the store can decide a request in a batch.
func (e *Engine) takesBatches(r *Request) bool {
	if e.server == nil {
		return e.transactor != nil && r.writes()
	}
	return r.Times >= 0 && int(r.Times) <= math.MaxInt32/max(len(r.Uses), 1) && !slices.ContainsFunc(r.Uses, func(u driver.Use) bool { return u.Program == nil })
}

// queueOf returns the queue for the server that keeps the keys of a request, and their slot.
func (e *Engine) queueOf(keys []string) (q *queue, slot string, err error) {
	name := ""
	if e.server != nil {
		if name, slot, err = e.server.Place(keys...); err != nil {
			return nil, "", err
		}
	}
	known, ok := e.queues.Load(name)
	if !ok {
		known, _ = e.queues.LoadOrStore(name, &queue{engine: e, breaker: breaker.New(e.options.OpenAfter), held: make(map[string]time.Time)})
	}
	return known.(*queue), slot, nil
}
