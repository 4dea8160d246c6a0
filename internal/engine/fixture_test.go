package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// way is a way to decide, with a store that uses it.
type way struct {
	name    string
	open    func(f *fakeStore) storage.Store
	batches bool // requests share round trips
	swaps   bool // requests are decided by swaps
}

var (
	onServer      = way{"on a server", func(f *fakeStore) storage.Store { return server{fakeStore: f} }, true, false}
	inTransaction = way{"in a transaction", func(f *fakeStore) storage.Store { return transactor{f} }, true, false}
	bySwaps       = way{"by swaps", func(f *fakeStore) storage.Store { return f }, false, true}
	onlySwaps     = way{"by swaps on a server", func(f *fakeStore) storage.Store { return withoutPrograms{server{fakeStore: f}} }, false, true}
	declined      = way{"declined by the server", func(f *fakeStore) storage.Store { return server{fakeStore: f, declines: 1} }, true, true}

	// The first letter of a key is its server, and the first two are its slot.
	onShards = way{"on several servers", func(f *fakeStore) storage.Store { return sharded{server{fakeStore: f}} }, true, false}

	remoteWays = []way{onServer, inTransaction, bySwaps, onlySwaps, declined}
	batchWays  = []way{onServer, inTransaction}
)

// lying returns a way with a server that changes its replies.
func lying(lie func(*driver.Batch)) way {
	return way{"on a server that lies", func(f *fakeStore) storage.Store { return server{fakeStore: f, lie: lie} }, true, false}
}

// fixture is an engine on a fake store, in a bubble of testing/synctest.
type fixture struct {
	*testing.T
	way
	store  *fakeStore
	server driver.Server // store, or nil
	engine *engine.Engine
	group  sync.WaitGroup
}

// expiryGrace is how long a caller waits after its deadline for a round trip with the same deadline.
const expiryGrace = 20 * time.Millisecond

var background = context.Background()

// forEachWay runs a test for each way. Afterwards the engine must be idle and must have no goroutines.
func forEachWay(t *testing.T, ways []way, o engine.Options, test func(b *fixture)) {
	t.Helper()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &fixture{T: t, way: w, store: newFakeStore()}
				store := w.open(b.store)
				b.server, _ = store.(driver.Server)
				b.engine = engine.New(store, o)
				defer b.end()
				test(b)
				b.group.Wait()
				synctest.Wait()
				time.Sleep(10 * time.Second) // requests of cancelled calls may be in a backoff
				synctest.Wait()
				require.True(t, b.engine.Idle(), "the engine must be idle")
			})
		})
	}
}

// coldAndWarm runs a test for each way, and again after a decision, when a caller sends its own request to a server.
func coldAndWarm(t *testing.T, ways []way, o engine.Options, test func(b *fixture)) {
	t.Helper()
	forEachWay(t, ways, o, test)
	forEachWay(t, ways, o, func(b *fixture) { b.warm(); test(b) })
}

// end releases all round trips, so that all goroutines end even after a failure.
func (b *fixture) end() {
	b.letOthersPass()()
	time.Sleep(time.Minute)
}

// decide decides a call.
func (b *fixture) decide(c *call) *call { return b.decideFor(background, c) }

func (b *fixture) decideFor(ctx context.Context, c *call) *call {
	b.run(ctx, c)
	return c
}

func (b *fixture) run(ctx context.Context, c *call) {
	began := time.Now()
	defer func() { c.panicked, c.returned, c.took = recover(), true, time.Since(began) }()
	r := &c.Request
	for i, p := range c.programs {
		if u := &r.Uses[i]; b.server != nil && u.Op <= driver.Charge && b.server.Runs(p) {
			u.Program = p
		}
	}
	if ctx.Err() == nil && !slices.ContainsFunc(r.Uses, func(u driver.Use) bool { return u.Op != driver.Allow }) {
		c.cached = b.engine.Deny(began, r.Items, func(now time.Time) (time.Duration, bool) {
			if _, err := r.Evaluator.Evaluate(now, r.Items, false); err != nil {
				return 0, false
			}
			return r.Evaluator.Denied()
		})
		if c.cached {
			return
		}
	}
	c.attempts, c.err = b.engine.Decide(ctx, r)
}

// start starts a call in a goroutine. It returns when the call has returned or waits.
func (b *fixture) start(c *call) *call { return b.startFor(background, c) }

func (b *fixture) startFor(ctx context.Context, c *call) *call {
	b.group.Go(func() { b.decideFor(ctx, c) })
	synctest.Wait()
	return c
}

// startEach starts a call of each key, whose limit is not reached.
func (b *fixture) startEach(keys ...string) (calls []*call) {
	for _, key := range keys {
		calls = append(calls, b.start(newCall(counter(1<<40), key)))
	}
	return calls
}

// hold makes round trips wait.
func (b *fixture) hold() {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.store.gate = make(chan struct{})
}

// releaseAll releases the waiting round trips, and later ones do not wait.
func (b *fixture) releaseAll() {
	b.letOthersPass()()
	synctest.Wait()
}

// finish is releaseAll, and then waits for all calls. The given ones must be allowed.
func (b *fixture) finish(calls ...*call) {
	b.Helper()
	b.releaseAll()
	b.group.Wait()
	for _, c := range calls {
		b.allowed(c)
	}
}

// letOthersPass lets later round trips pass. The waiting ones wait for release.
func (b *fixture) letOthersPass() (release func()) {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	gate := b.store.gate
	b.store.gate = nil
	return func() {
		if gate != nil {
			close(gate)
		}
	}
}

// inOneBatch decides the calls in one batch. They wait while another call is in flight, for a key on their server.
func (b *fixture) inOneBatch(calls ...*call) {
	b.hold()
	b.start(newCall(counter(9), "a0"))
	for _, c := range calls {
		b.start(c)
	}
	b.finish()
}

// forgetTrips forgets the round trips so far.
func (b *fixture) forgetTrips() {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.store.trips = nil
}

// releaseOne releases one round trip.
func (b *fixture) releaseOne() {
	b.store.gate <- struct{}{}
	synctest.Wait()
}

// warm makes a decision, so that the next caller sends its own request to a server.
func (b *fixture) warm() {
	require.NoError(b, b.decide(newCall(counter(9), "warm")).err)
	synctest.Wait() // the sender has given back its slot
	b.forgetTrips()
}

// allowed checks that a call was allowed.
func (b *fixture) allowed(c *call) *call {
	b.Helper()
	require.NoError(b, c.err)
	require.True(b, c.allowed)
	return c
}

// denied checks that a call was denied.
func (b *fixture) denied(c *call) *call {
	b.Helper()
	require.NoError(b, c.err)
	require.False(b, c.allowed)
	return c
}

// failed checks that a call failed with these errors, and with no other one of package storage.
func (b *fixture) failed(c *call, errs ...error) *call {
	b.Helper()
	for _, err := range errs {
		require.ErrorIs(b, c.err, err)
	}
	for _, kind := range []error{storage.ErrUnavailable, storage.ErrContended, storage.ErrNotApplied, storage.ErrOutcomeUnknown, storage.ErrProgram} {
		require.Equal(b, slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, kind) }), errors.Is(c.err, kind), "%v: %v", kind, c.err)
	}
	return c
}
