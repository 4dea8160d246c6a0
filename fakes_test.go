package sluice_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

// call is the input of most limiters in the tests.
type call struct {
	user, resource string
	cost           int64
	write          bool
}

func byUser(c call) string     { return c.user }
func byResource(c call) string { return c.resource }

var (
	background = context.Background()
	ann        = call{user: "ann"}

	failurePolicies = []sluice.FailurePolicy{sluice.FailClosed, sluice.FailOpen, sluice.FailLocal}
)

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(background)
	cancel()
	return ctx
}()

func mustPolicy(spec string) algo.Policy {
	p, err := compose.ParsePolicy(spec)
	if err != nil {
		panic(err)
	}
	return p
}

// rulesOf returns rules by user with the names "rule 0", "rule 1" and so on.
func rulesOf(specs ...string) (rules []sluice.Rule[call]) {
	for i, spec := range specs {
		rules = append(rules, sluice.Rule[call]{Name: fmt.Sprint("rule ", i), Key: byUser, Spec: spec})
	}
	return rules
}

func newLimiter[T any](t *testing.T, o sluice.Options[T], store storage.Store, rules ...sluice.Rule[T]) *sluice.Limiter[T] {
	t.Helper()
	l, err := o.New(store, rules...)
	require.NoError(t, err)
	return l
}

// must returns a function that fails the test if there is an error.
func must(t *testing.T) func(sluice.Decision, error) sluice.Decision {
	return func(d sluice.Decision, err error) sluice.Decision {
		t.Helper()
		require.NoError(t, err)
		return d
	}
}

// remaining returns what each rule has left for an input.
func remaining[T any](t *testing.T, l *sluice.Limiter[T], in T) (left []int64) {
	t.Helper()
	for _, r := range must(t)(l.Peek(background, in)).Results {
		left = append(left, r.Remaining)
	}
	return left
}

// fakeClock is a clock that only advance moves.
type fakeClock struct{ now time.Time }

func newClock() *fakeClock                   { return &fakeClock{time.Unix(1e9, 0)} }
func (c *fakeClock) Now() time.Time          { return c.now }
func (c *fakeClock) advance(d time.Duration) { c.now = c.now.Add(d) }

// transactor hides that a store is a memory.Store, so that the limiter uses its engine.
type transactor struct{ driver.Transactor }

// swapOnly hides all abilities of a store but Load and CompareAndSwap.
type swapOnly struct{ storage.Store }

// memoryStores are the ways to decide in memory: without the engine, by the engine in transactions, and by
// swaps.
func memoryStores() map[string]storage.Store {
	return map[string]storage.Store{
		"in memory":       new(memory.Store),
		"in transactions": transactor{new(memory.Store)},
		"by swaps":        swapOnly{new(memory.Store)},
	}
}

// inBubbles runs a test on each store, in a bubble of testing/synctest.
func inBubbles(t *testing.T, stores map[string]storage.Store, test func(t *testing.T, store storage.Store)) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, store) }) })
	}
}

// faultyStore fails with err, or does not answer while hangs is set. A swap also fails with swapErr.
type faultyStore struct {
	storage.Store
	err, swapErr error
	hangs        bool
}

// errNoTable is not retried, so that a test need not wait for a timeout.
var errNoTable = storage.NotApplied(errors.New("no such table"))

// errOutage is retried until the timeout.
var errOutage = storage.NotApplied(fmt.Errorf("%w: no route", storage.ErrUnavailable))

func newFaultyStore() *faultyStore { return &faultyStore{Store: new(memory.Store)} }

func (s *faultyStore) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	if err := s.fault(ctx); err != nil {
		return nil, time.Time{}, err
	}
	return s.Store.Load(ctx, keys...)
}

func (s *faultyStore) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if err := cmp.Or(s.fault(ctx), s.swapErr); err != nil {
		return nil, false, err
	}
	return s.Store.CompareAndSwap(ctx, swaps...)
}

func (s *faultyStore) fault(ctx context.Context) error {
	if s.hangs {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(fmt.Errorf("%w: %w", storage.ErrUnavailable, err))
	}
	return s.err
}

// altered is a policy of a user: the limiter knows nothing of it but the methods of algo.Policy. alter can change a result, fail, or panic.
type altered struct {
	algo.Policy
	alter func(r *algo.Result) error
}

func (p altered) Step(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	if next, r, err = p.Policy.Step(dst, state, now, cost); err == nil {
		err = p.alter(&r)
	}
	return next, r, err
}

func (p altered) Peek(state []byte, now time.Time, cost int64) (r algo.Result, err error) {
	if r, err = p.Policy.Peek(state, now, cost); err == nil {
		err = p.alter(&r)
	}
	return r, err
}

// keyText returns the key of a record that has no group.
func keyText(namespace, rule, kind, key string) string {
	return driver.RuleKey{Rule: driver.Rule(namespace, rule, kind), Key: key}.String()
}

// recordOf returns the record of a key that has no group.
func recordOf(t *testing.T, store storage.Store, namespace, rule, kind, key string) storage.Record {
	t.Helper()
	records, _, err := store.Load(background, keyText(namespace, rule, kind, key))
	require.NoError(t, err)
	return records[0]
}

// requireAllowedExactlyAfter requires that a call of ann is denied a microsecond before retryAfter has passed, and then allowed.
func requireAllowedExactlyAfter(t *testing.T, l *sluice.Limiter[call], clock *fakeClock, retryAfter time.Duration) {
	t.Helper()
	clock.advance(retryAfter - time.Microsecond)
	require.False(t, must(t)(l.Allow(background, ann)).Allowed)
	clock.advance(time.Microsecond)
	require.True(t, must(t)(l.Allow(background, ann)).Allowed)
}
