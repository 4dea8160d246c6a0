package storage_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

// troubled is a store that takes its time and does to every group of swaps one
// of all the things that may become of it.
type troubled struct {
	*scripted
	mu     sync.Mutex
	random *rand.Rand
	over   bool // the trouble is
}

// draw is a number below n, and none of those when the trouble is over.
func (s *troubled) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return n
	}
	return s.random.IntN(n)
}

func (s *troubled) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if err := s.suffer(ctx); err != nil {
		return nil, err
	}
	return s.scripted.Load(ctx, keys...)
}

func (s *troubled) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	o := s.CompareAndSwapBatch(ctx, swaps)[0]
	return o.Current, o.Swapped, o.Err
}

func (s *troubled) CompareAndSwapBatch(ctx context.Context, groups ...[]storage.Swap) []storage.Outcome {
	outcomes := make([]storage.Outcome, len(groups))
	for i, swaps := range groups {
		o := &outcomes[i]
		if o.Err = s.suffer(ctx); o.Err != nil {
			continue
		}
		o.Current, o.Swapped, o.Err = s.scripted.CompareAndSwap(ctx, swaps...)
		if s.draw(12) == 0 {
			*o = storage.Outcome{Err: errLost}
		}
	}
	return outcomes
}

// suffer is what becomes of a request before the database sees it.
func (s *troubled) suffer(ctx context.Context) error {
	time.Sleep(time.Duration(s.draw(400)) * time.Microsecond)
	switch s.draw(40) {
	case 0:
		return storage.NotApplied(storage.ErrUnavailable)
	case 1:
		return fmt.Errorf("%w: connection reset", storage.ErrUnavailable)
	case 2:
		return storage.ErrContended
	case 3:
		return storage.NotApplied(errors.New("no such table"))
	case 4:
		<-ctx.Done()
		return fmt.Errorf("hanging: %w", ctx.Err())
	case 5:
		<-ctx.Done()
		return storage.NotApplied(fmt.Errorf("hanging: %w", ctx.Err()))
	case 6:
		<-ctx.Done()
		return storage.NotApplied(fmt.Errorf("%w: %w", storage.ErrUnavailable, ctx.Err()))
	}
	return nil
}

// books are what callers were told that they paid under each key, and what they
// may have paid.
type books struct {
	mu          sync.Mutex
	paid, maybe map[string]int
}

func (b *books) enter(keys []string, n int, err error, paid bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		switch {
		case paid:
			b.paid[key] += n
		case errors.Is(err, storage.ErrOutcomeUnknown):
			b.maybe[key] += n
		}
	}
}

// payer is a client that calls an engine in every way there is: with more and
// less time, under many keys, to pay and to look, with decisions that fail or
// panic at some run.
type payer struct {
	engine *storage.Engine
	random *rand.Rand
	budget time.Duration
	books  *books
}

func (p *payer) pay(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	if p.random.IntN(3) == 0 {
		ctx, cancel = context.WithTimeout(background, time.Duration(p.random.Int64N(int64(p.budget))))
	}
	defer cancel()
	keys, d := randomTally(p.random)
	d.add, d.limit = p.random.IntN(4), 150
	flaw, runs, allowed := p.random.IntN(20), 0, false
	defer func() {
		if r := recover(); r != nil && r != "own" {
			panic(r)
		}
	}()
	_, err := p.engine.Do(ctx, keys, func(now time.Time, found [][]byte, next []storage.Change) (bool, error) {
		lasting, _ := d.decide(now, found, next)
		allowed = next[0].Verb == storage.Put
		if runs++; runs > flaw/4 {
			switch flaw {
			case 0, 5:
				panic("own")
			case 1, 6:
				return false, errors.New("own")
			}
		}
		return lasting, nil
	})
	if errors.Is(err, storage.ErrOutcomeUnknown) {
		assert.NotErrorIs(t, err, storage.ErrNotApplied)
	}
	p.books.enter(keys, d.add, err, err == nil && allowed) // else it may still run
}

// Whatever a store does to its clients: what they were told that they paid is
// stored, and no more than that and what nobody can tell; nobody is forgotten,
// and no key stays busy.
func TestNoTroubleLosesOrInventsAPayment(t *testing.T) {
	for seed := range 15 {
		for i, o := range everyEngine() {
			random := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
			o.Budget = time.Duration(1+random.IntN(40)) * time.Millisecond
			o.InFlight = random.IntN(4)
			o.FailFast = time.Duration(random.IntN(3)) * o.Budget / 2
			if random.IntN(3) == 0 {
				o.Queue = 1 + random.IntN(6)
			}
			t.Run(fmt.Sprintf("%d %+v", seed, o), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { survive(t, o, random) })
			})
		}
	}
}

func survive(t *testing.T, o storage.EngineOptions, random *rand.Rand) {
	source := func() *rand.Rand { return rand.New(rand.NewPCG(random.Uint64(), 0)) }
	s := &troubled{scripted: newScripted(), random: source()}
	engines := []*storage.Engine{storage.NewEngine(s, o), storage.NewEngine(s, o)} // as of two processes
	b := &books{paid: map[string]int{}, maybe: map[string]int{}}
	var group sync.WaitGroup
	for i := range 16 {
		p := &payer{engines[i%2], source(), o.Budget, b}
		group.Go(func() {
			for range 12 {
				p.pay(t)
				time.Sleep(time.Duration(p.random.IntN(3)) * time.Millisecond)
			}
		})
	}
	group.Wait()
	time.Sleep(time.Minute) // what those who left asked for goes on
	synctest.Wait()
	for i := range 5 {
		key := fmt.Sprint("key ", i)
		stored := len(s.records[key].State)
		require.LessOrEqual(t, b.paid[key], stored, "paid and not stored: %s", key)
		require.LessOrEqual(t, stored, b.paid[key]+b.maybe[key], "stored and not paid: %s", key)
	}
	s.over = true
	for _, e := range engines {
		require.True(t, e.Idle(), "somebody was forgotten")
		_, err := do(e, &count{limit: 1 << 20}, "key 0", "key 1", "key 2", "key 3", "key 4")
		require.NoError(t, err, "it recovers by itself")
	}
}

// slow is a store of which every round trip takes a millisecond.
type slow struct{ *scripted }

func (s slow) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	o := s.CompareAndSwapBatch(ctx, swaps)[0]
	return o.Current, o.Swapped, o.Err
}

func (s slow) CompareAndSwapBatch(ctx context.Context, groups ...[]storage.Swap) []storage.Outcome {
	outcomes := make([]storage.Outcome, len(groups))
	time.Sleep(time.Millisecond)
	for i, swaps := range groups {
		o := &outcomes[i]
		o.Current, o.Swapped, o.Err = s.scripted.CompareAndSwap(ctx, swaps...)
	}
	return outcomes
}

// A call that needs every key gets its turn, however many ask without a pause for
// one of them each: it waits for no more than those who were there before it.
func TestACallOfManyKeysIsNotStarved(t *testing.T) {
	const keys, clients = 6, 3
	var all []string
	for i := range keys {
		all = append(all, fmt.Sprint("key ", i))
	}
	for _, o := range everyEngine() {
		if o.NoCombining && o.NoSharing {
			continue // nobody waits for a turn
		}
		synctest.Test(t, func(t *testing.T) {
			e := storage.NewEngine(slow{newScripted()}, o)
			var group sync.WaitGroup
			var done atomic.Bool
			for i := range keys * clients {
				group.Go(func() {
					time.Sleep(time.Duration(i) * 100 * time.Microsecond) // so that the keys are never all free
					for !done.Load() {
						_, err := do(e, &count{limit: 1 << 20}, all[i%keys])
						assert.NoError(t, err)
					}
				})
			}
			for range 30 {
				began := time.Now()
				_, err := do(e, &count{limit: 1 << 20}, all...)
				require.NoError(t, err)
				require.LessOrEqual(t, time.Since(began), (2+keys*clients)*time.Millisecond, "%+v", o)
			}
			done.Store(true)
			group.Wait()
			synctest.Wait()
			require.True(t, e.Idle(), "%+v", o)
		})
	}
}
