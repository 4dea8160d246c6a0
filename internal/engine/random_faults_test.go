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
