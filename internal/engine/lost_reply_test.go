package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// write returns the number of the round trip that writes.
func (b *fixture) write() int {
	if b.swaps {
		return 2
	}
	return 1
}

var (
	waysWithReplies = append(lossyWays, inTransaction)
	// In these ways, a round trip whose request was lost may have been applied.
	lossyWays = []way{onServer, bySwaps, onlySwaps}
)

// The units may be taken again, but only once, and never beyond the limit.
func TestRequestWithALostReplyIsDecidedAgain(t *testing.T) {
	for _, test := range []struct {
		ways            []way
		limit           int64
		stored, allowed bool
		state           string
	}{{waysWithReplies, 9, true, true, "xx"}, {waysWithReplies, 1, true, false, "x"}, {lossyWays, 1, false, true, "x"}} {
		forEachWay(t, test.ways, engine.Options{}, func(b *fixture) {
			if b.store.after = onTrip(b.write(), errLost); !test.stored {
				b.store.before, b.store.after = b.store.after, nil
			}
			c := b.decide(newCall(counter(test.limit), "k"))
			require.NoError(b, c.err)
			require.Equal(b, test.allowed, c.allowed)
			require.Equal(b, test.state, b.store.state("k"))
		})
	}
}

func TestRequestWithTwoLostRepliesIsErrOutcomeUnknown(t *testing.T) {
	forEachWay(t, waysWithReplies, engine.Options{}, func(b *fixture) {
		first, second := onTrip(b.write(), errLost), onTrip(2*b.write(), errLost)
		b.store.after = func(keys []string) error { return errors.Join(first(keys), second(keys)) }
		b.failed(b.decide(newCall(counter(9), "k")), storage.ErrOutcomeUnknown)
		require.Equal(b, "xx", b.store.state("k"))
	})
}

func TestRefundWithALostReplyIsNeverRepeated(t *testing.T) {
	for want, stored := range map[string]bool{"xxx": true, "xxxx": false} {
		forEachWay(t, lossyWays, engine.Options{}, func(b *fixture) {
			b.store.put("k", "xxxx")
			if b.store.after = onTrip(b.write(), errLost); !stored {
				b.store.before, b.store.after = b.store.after, nil
			}
			b.failed(b.decide(newCallOf(driver.Refund, counter(4), "k")), storage.ErrOutcomeUnknown)
			require.Equal(b, want, b.store.state("k"))
		})
	}
}

// The second attempt fails before it is evaluated, so it stores nothing.
func TestChangesOfAnEarlierAttemptDoNotCount(t *testing.T) {
	forEachWay(t, []way{inTransaction}, engine.Options{}, func(b *fixture) {
		b.store.after = onTrip(1, storage.NotApplied(storage.ErrContended))
		b.store.before = onTrip(2, errLost)
		b.failed(b.decide(newCall(counter(9), "k")), storage.ErrNotApplied)
	})
}

// A denial stores nothing, so its outcome is known. In a transaction, that of an error is known too.
func TestDenialIsNeverErrOutcomeUnknown(t *testing.T) {
	forEachWay(t, waysWithReplies, engine.Options{}, func(b *fixture) {
		if b.name == inTransaction.name {
			b.store.after = onTrip(1, errLost)
			b.store.put("b", "damaged")
			b.failed(b.decide(newCall(counter(9), "a", "b")), storage.ErrNotApplied)
		}
		b.store.put("k", "xx")
		b.store.after = onTrip(1, errLost)
		if c := b.decide(newCall(counter(2), "k")); c.err != nil {
			b.failed(c, storage.ErrNotApplied)
		}
		b.denied(b.decide(newCall(counter(2), "k")))
	})
}

func TestRequestInFlightAtTheTimeoutIsErrOutcomeUnknown(t *testing.T) {
	coldAndWarm(t, append(lossyWays, declined), engine.Options{Timeout: time.Second, OpenAfter: -1}, func(b *fixture) {
		b.hold()
		c := b.start(newCall(counter(9), "k"))
		for range b.write() - 1 {
			b.releaseOne()
		}
		if b.name == declined.name {
			b.releaseOne()
		}
		b.group.Wait()
		b.failed(c, storage.ErrOutcomeUnknown, storage.ErrUnavailable)
		require.InDelta(b, time.Second, c.took, float64(expiryGrace))
		b.releaseAll()
		b.allowed(b.decide(newCall(counter(9), "k")))
	})
}

// A later attempt was not applied, but the first one may have been.
func TestErrOutcomeUnknownIsNeverErrNotApplied(t *testing.T) {
	forEachWay(t, lossyWays, engine.Options{}, func(b *fixture) {
		n := 0
		b.store.before = func([]string) error {
			switch n++; {
			case n == b.write():
				return errRefused
			case n > b.write():
				return storage.NotApplied(errRefused)
			}
			return nil
		}
		b.failed(b.decide(newCall(counter(9), "k")), storage.ErrOutcomeUnknown, storage.ErrUnavailable)
	})
}

func TestPartialWriteIsErrOutcomeUnknownAtOnce(t *testing.T) {
	forEachWay(t, waysWithReplies, engine.Options{}, func(b *fixture) {
		n := 0
		b.store.after = func([]string) error {
			if n++; n >= b.write() {
				return errors.Join(storage.ErrPartialWrite, errRefused)
			}
			return nil
		}
		c := b.failed(b.decide(newCall(counter(9), "a", "b")), storage.ErrOutcomeUnknown, storage.ErrPartialWrite, storage.ErrUnavailable)
		require.Zero(b, c.took)
	})
}

// The call is cancelled between the load and the swap, and returns ErrNotApplied.
func TestNothingIsStoredForACallCancelledBeforeTheSwap(t *testing.T) {
	forEachWay(t, []way{bySwaps, onlySwaps, declined}, engine.Options{}, func(b *fixture) {
		ctx, cancel := context.WithCancel(background)
		b.hold()
		c := b.startFor(ctx, newCall(counter(9), "k"))
		if b.batches {
			b.releaseOne() // the server declines the batch
		}
		cancel()
		synctest.Wait()
		b.failed(c, context.Canceled, storage.ErrNotApplied)
		b.releaseAll()
		time.Sleep(2 * time.Second)
		require.Empty(b, b.store.state("k"))
	})
}

// After the lost reply, another process writes a state that cannot be read.
func TestErrorAfterALostReplyIsErrOutcomeUnknown(t *testing.T) {
	forEachWay(t, lossyWays, engine.Options{}, func(b *fixture) {
		lost := onTrip(b.write(), errLost)
		b.store.after = func(keys []string) error {
			err := lost(keys)
			if err != nil {
				b.store.put("k", "damaged")
			}
			return err
		}
		b.failed(b.decide(newCall(counter(3), "k")), storage.ErrOutcomeUnknown)
	})
}

// A reply is lost, the server declines the second attempt, and the queue is full.
func TestCallWhoseReplyWasLostIsNotRefused(t *testing.T) {
	lost := false
	declines := lying(func(b *driver.Batch) {
		if lost {
			b.Requests[0].Applied = driver.Declined
		}
	})
	forEachWay(t, []way{declines}, engine.Options{MaxQueue: 1, Timeout: time.Second}, func(b *fixture) {
		b.store.after = func([]string) error {
			if !lost {
				lost = true
				return errLost
			}
			b.store.after = nil
			b.hold()
			for range 2 { // one swaps, and the other one waits for that and fills the queue
				b.group.Go(func() { b.decide(newCallOf(driver.Reset, nil, "k")) })
			}
			time.Sleep(time.Millisecond)
			return nil
		}
		c := b.start(newCall(counter(9), "k"))
		time.Sleep(100 * time.Millisecond)
		b.finish(c)
	})
}

// randomFaults makes round trips fail, hang and lose replies at random.
type randomFaults struct {
	mu     sync.Mutex
	random *rand.Rand
	ended  bool
}

func (x *randomFaults) draw(n int) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return n
	}
	return x.random.IntN(n)
}

func (x *randomFaults) before([]string) error {
	time.Sleep(time.Duration(x.draw(400)) * time.Microsecond)
	switch x.draw(40) {
	case 0:
		return storage.NotApplied(storage.ErrUnavailable)
	case 1:
		return fmt.Errorf("%w: connection reset", storage.ErrUnavailable)
	case 2:
		return storage.ErrContended
	case 3:
		return storage.NotApplied(errors.New("no such table"))
	case 4:
		time.Sleep(60 * time.Millisecond) // longer than any timeout
		return errLost
	case 5:
		time.Sleep(60 * time.Millisecond)
		return nil
	case 6:
		return errLost
	}
	return nil
}

func (x *randomFaults) after([]string) error {
	if x.draw(12) == 0 {
		return errLost
	}
	return nil
}

// ledger is how many units were charged for each key, and how many may have been charged.
type ledger struct {
	mu          sync.Mutex
	paid, maybe map[string]int
}

func (b *ledger) add(c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, u := range c.Uses {
		switch {
		case c.panicked != nil || errors.Is(c.err, storage.ErrOutcomeUnknown):
			b.maybe[c.Items[i].Key.Key] += int(u.Cost)
		case c.err == nil && c.allowed && u.Op != driver.Peek:
			b.paid[c.Items[i].Key.Key] += int(u.Cost)
		}
	}
}

// All charged units are stored. If no reply is lost after a write, the stored units are at most the
// charged units plus those with an unknown outcome.
func TestRandomFaultsLoseOrInventNoCharge(t *testing.T) {
	for _, w := range remoteWays {
		for seed := range uint64(15) {
			random := rand.New(rand.NewPCG(seed, 3))
			o := engine.Options{
				Timeout: time.Duration(1+random.IntN(40)) * time.Millisecond, MaxRoundTrips: random.IntN(4),
				OpenAfter: time.Duration(random.IntN(50)-1) * time.Millisecond,
			}
			if random.IntN(3) == 0 {
				o.MaxQueue = 1 + random.IntN(6)
			}
			t.Run(fmt.Sprint(w.name, " ", seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { runWithFaults(t, w, o, random, seed%2 == 0) })
			})
		}
	}
}

func runWithFaults(t *testing.T, w way, o engine.Options, random *rand.Rand, lossy bool) {
	source := func() *rand.Rand { return rand.New(rand.NewPCG(random.Uint64(), 0)) }
	x, store := &randomFaults{random: source()}, newFakeStore()
	if store.before = x.before; lossy {
		store.after = x.after
	}
	paid := &ledger{paid: map[string]int{}, maybe: map[string]int{}}
	var fleet []*fixture
	for range 2 { // two processes
		fleet = append(fleet, &fixture{T: t, way: w, store: store, engine: engine.New(w.open(store), o)})
	}
	var group sync.WaitGroup
	for i := range 16 {
		b, own := fleet[i%2], source()
		group.Go(func() {
			for range 12 {
				pay(b, own, o.Timeout, paid)
				time.Sleep(time.Duration(own.IntN(3)) * time.Millisecond)
			}
		})
	}
	group.Wait()
	time.Sleep(time.Minute) // requests of cancelled calls may still run
	synctest.Wait()
	for i := range 5 {
		key := fmt.Sprint("key ", i)
		stored := len(store.state(key))
		require.LessOrEqual(t, paid.paid[key], stored, "paid and not stored: %s", key)
		require.LessOrEqual(t, stored, limit, "beyond the limit")
		if !lossy { // otherwise a request with an unproven outcome is decided again
			require.LessOrEqual(t, stored, paid.paid[key]+paid.maybe[key], "stored and not paid: %s", key)
		}
	}
	x.ended, store.before, store.after = true, nil, nil
	for _, b := range fleet {
		require.True(t, b.engine.Idle(), "the engine must be idle")
		b.decide(newCall(counter(limit), "key 0")) // may start a probe
		time.Sleep(time.Second)
		require.NoError(t, b.decide(newCall(counter(limit), "key 0", "key 1", "key 2", "key 3", "key 4")).err, "the engine must recover")
	}
}

const limit = 150

// pay makes a random call.
func pay(b *fixture, random *rand.Rand, timeout time.Duration, paid *ledger) {
	ctx, cancel := context.WithCancel(background)
	switch random.IntN(6) {
	case 0, 1:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(random.Int64N(int64(timeout))))
	case 2:
		time.AfterFunc(time.Duration(random.Int64N(int64(timeout))), cancel)
	}
	defer cancel()
	var keys []string
	for _, k := range random.Perm(5)[:random.IntN(3)+1] {
		keys = append(keys, fmt.Sprint("key ", k))
	}
	c := newCallOf([]driver.Op{driver.Allow, driver.Allow, driver.Allow, driver.Peek}[random.IntN(4)], program, keys...)
	for i := range c.Uses {
		c.Uses[i].Cost = 1 + int64(random.IntN(3))
	}
	b.decideFor(ctx, c)
	if errors.Is(c.err, storage.ErrOutcomeUnknown) {
		assert.NotErrorIs(b, c.err, storage.ErrNotApplied)
	}
	paid.add(c)
}

var program *algo.Program = counter(limit)

// It is not repeated. The caller must not read the request, which a hanging round trip can still use.
func TestResetWithALostReplyReportsNoRecord(t *testing.T) {
	forEachWay(t, []way{bySwaps}, engine.Options{}, func(b *fixture) {
		b.store.put("k", "x")
		b.store.after = onTrip(b.write(), errLost)
		existed, err := b.engine.Reset(background, "k")
		require.ErrorIs(b, err, storage.ErrOutcomeUnknown)
		require.False(b, existed)
	})
}
