package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// way is one of the ways in which an engine decides.
type way struct {
	name    string
	open    func(f *fake) storage.Store
	batches bool // requests share round trips
	swaps   bool // requests are decided by swaps
}

var (
	onServer      = way{"on a server", func(f *fake) storage.Store { return server{fake: f} }, true, false}
	inTransaction = way{"in a transaction", func(f *fake) storage.Store { return transactor{f} }, true, false}
	bySwaps       = way{"by swaps", func(f *fake) storage.Store { return f }, false, true}
	bySwapsClock  = way{"by swaps and the server's clock", func(f *fake) storage.Store { return withClock{f} }, false, true}
	declined      = way{"declined by the server", func(f *fake) storage.Store { return server{fake: f, declines: 1} }, true, true}
	inMemory      = way{"in place", func(*fake) storage.Store { return new(memory.Store) }, false, false}

	remoteWays = []way{onServer, inTransaction, bySwaps, bySwapsClock, declined}
	batchWays  = []way{onServer, inTransaction}
)

// onCaller is a store that must be called by the goroutine of the caller, as one on a transaction of
// the caller.
type onCallerServer struct{ server }
type onCallerTransactor struct{ transactor }
type onCallerSwaps struct{ *fake }

func (onCallerServer) MaxRoundTrips() int     { return 0 }
func (onCallerTransactor) MaxRoundTrips() int { return 0 }
func (onCallerSwaps) MaxRoundTrips() int      { return 0 }

var callerWays = []way{
	{"on a server, by the caller's goroutine", func(f *fake) storage.Store { return onCallerServer{server{fake: f}} }, false, false},
	{"in a transaction, by the caller's goroutine", func(f *fake) storage.Store { return onCallerTransactor{transactor{f}} }, false, false},
	{"by swaps, by the caller's goroutine", func(f *fake) storage.Store { return onCallerSwaps{f} }, false, true},
}

// bench is an engine on a fake store, in a bubble of time.
type bench struct {
	*testing.T
	way
	store  *fake
	engine *engine.Engine
	group  sync.WaitGroup
}

// ending is for how long a caller waits beyond its time for a round trip that ends at that moment.
const ending = 20 * time.Millisecond

var background = context.Background()

// each runs a test for every way. It requires that the engine is idle and all its goroutines
// have ended, afterwards.
func each(t *testing.T, ways []way, o engine.Options, test func(b *bench)) {
	t.Helper()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{T: t, way: w, store: newFake()}
				if w.name == inMemory.name && o.Clock == nil {
					o.Clock = time.Now
				}
				b.engine = engine.New(w.open(b.store), o)
				defer b.end()
				test(b)
				b.group.Wait()
				synctest.Wait()
				time.Sleep(10 * time.Second) // requests of callers that have left may pause
				synctest.Wait()
				require.True(t, b.engine.Idle(), "a request was forgotten")
			})
		})
	}
}

// end lets all goroutines end, also after a failure.
func (b *bench) end() {
	b.store.mu.Lock()
	if b.store.gate != nil {
		close(b.store.gate)
		b.store.gate = nil
	}
	b.store.mu.Unlock()
	time.Sleep(time.Minute)
}

// decide decides a call, and returns when that is done.
func (b *bench) decide(c *call) *call { return b.decideFor(background, c) }

func (b *bench) decideFor(ctx context.Context, c *call) *call {
	b.run(ctx, c)
	return c
}

func (b *bench) run(ctx context.Context, c *call) {
	began := time.Now()
	defer func() { c.panicked, c.returned, c.took = recover(), true, time.Since(began) }()
	c.how, c.err = b.engine.Decide(ctx, &c.Request)
}

// start starts a call, and returns when it is done or waits.
func (b *bench) start(c *call) *call { return b.startFor(background, c) }

func (b *bench) startFor(ctx context.Context, c *call) *call {
	b.group.Go(func() { b.decideFor(ctx, c) })
	synctest.Wait()
	return c
}

// close lets round trips wait at a gate.
func (b *bench) close() {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.store.gate = make(chan struct{})
}

// open lets all pass that wait at the gate, and all later ones.
func (b *bench) open() {
	b.store.mu.Lock()
	gate := b.store.gate
	b.store.gate = nil
	b.store.mu.Unlock()
	close(gate)
	synctest.Wait()
}

// pass lets one round trip pass.
func (b *bench) pass() {
	b.store.gate <- struct{}{}
	synctest.Wait()
}

// warm makes a decision, so that the next callers send their requests themselves.
func (b *bench) warm() {
	require.NoError(b, b.decide(newCall(counter(9), "warm")).err)
	b.store.mu.Lock()
	b.store.trips = nil
	b.store.mu.Unlock()
}

// allowed requires that a call was allowed.
func (b *bench) allowed(c *call) *call {
	b.Helper()
	require.NoError(b, c.err)
	require.True(b, c.allowed)
	return c
}

// denied requires that a call was denied.
func (b *bench) denied(c *call) *call {
	b.Helper()
	require.NoError(b, c.err)
	require.False(b, c.allowed)
	return c
}
