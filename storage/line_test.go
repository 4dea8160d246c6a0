package storage_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// arrival is a caller who notes what it was decided on.
type arrival struct {
	keys  []string
	found []int // of each key, how many decisions it had seen
	err   error
}

func (a *arrival) decide(_ time.Time, found [][]byte, next []storage.Change) (bool, error) {
	a.found = a.found[:0]
	for i := range found {
		a.found = append(a.found, len(found[i]))
		next[i] = storage.Change{Verb: storage.Put, State: append([]byte("x"), found[i]...)}
	}
	return false, nil
}

// Whatever the others want, how many round trips there are, who leaves, what cannot be
// stored and who else writes.
func TestEachKeyIsDecidedInTheOrderOfArrival(t *testing.T) {
	const keys, most, callers = 6, 3, 60
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 0))
		o := storage.EngineOptions{InFlight: 1 + random.IntN(3), Budget: time.Hour}
		switch random.IntN(4) {
		case 0:
			o.NoCombining = true
		case 1:
			o.NoSharing = true
		}
		inBubble(t, o, func(s *gated, c *crowd) {
			s.refuse = func(keys []string) error {
				if slices.Contains(keys, "0") && len(keys) > most { // they are tried apart
					return storage.NotApplied(errors.New("too far apart"))
				}
				return nil
			}
			var arrivals []*arrival
			for range callers {
				a := new(arrival)
				for _, key := range random.Perm(keys)[:1+random.IntN(most)] {
					a.keys = append(a.keys, fmt.Sprint(key))
				}
				arrivals = append(arrivals, a)
				ctx, leave := context.WithCancel(background)
				defer leave()
				c.start(func() { _, a.err = c.engine.Do(ctx, a.keys, a.decide) })
				switch random.IntN(8) {
				case 0:
					leave()
				case 1:
					select {
					case s.gate <- struct{}{}:
					default: // they rest
					}
				case 2:
					s.meddle(a.keys[0])
				}
				synctest.Wait()
			}
			close(s.gate)
			c.group.Wait()

			last := map[string]int{}
			for i, a := range arrivals {
				if a.err != nil {
					continue
				}
				for j, key := range a.keys {
					before, some := last[key]
					require.True(t, !some || before < a.found[j], "seed %d: caller %d found %d on %s, one before it %d", seed, i, a.found[j], key, before)
					last[key] = a.found[j]
				}
			}
			require.Len(t, last, keys)
		})
	}
}

// meddle is another process that writes a key.
func (g *gated) meddle(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.records[key] = storage.Record{Version: storage.NewVersion(), State: append([]byte("x"), g.records[key].State...)}
}

func TestNotCombinedEachIsAWriteOfItsOwn(t *testing.T) {
	inBubble(t, storage.EngineOptions{NoCombining: true}, func(s *gated, c *crowd) {
		for _, key := range []string{"k", "k", "other", "k"} {
			c.call(background, key)
		}
		close(s.gate)
		c.group.Wait()
		require.Equal(t, []string{"k", "other", "k", "k"}, s.trips)
	})
}

// Those of a write that cannot be stored are tried one by one, and nobody joins them until
// they are through.
func TestThoseWhoAreTriedApartAreAlone(t *testing.T) {
	inBubble(t, storage.EngineOptions{InFlight: 1}, func(s *gated, c *crowd) {
		far := storage.NotApplied(errors.New("keys of two servers"))
		s.refuse = func(keys []string) error {
			if slices.Contains(keys, "far") {
				return far
			}
			return nil
		}
		c.call(background, "first")
		c.call(background, "k")
		bad := c.call(background, "k", "far")
		for range 2 {
			c.call(background, "k")
		}
		s.gate <- struct{}{}
		synctest.Wait()
		c.call(background, "k", "late")
		for range 2 {
			c.call(background, "k")
		}
		close(s.gate)
		c.group.Wait()
		require.ErrorIs(t, bad.err, far)
		require.Equal(t, []string{"first", "k far", "k", "k far", "k", "k", "k late"}, s.trips)
	})
}

func TestAWriteIsOfSoManyCallsAtMost(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		written, most := 0, 0
		s.after = func(int) error {
			now := len(s.records["k"].State)
			written, most = now, max(most, now-written)
			return nil
		}
		c.call(background, "k")
		for range 3000 {
			c.group.Go(func() { _, _ = c.engine.Do(background, []string{"k"}, new(arrival).decide) })
		}
		synctest.Wait()
		close(s.gate)
		c.group.Wait()
		require.Equal(t, 3001, written)
		require.Equal(t, 1024, most)
		require.Len(t, s.trips, 4)
	})
}

// A crowd that loses to others takes nobody along that it does not have, and no seats from
// those who want something else.
func TestACrowdThatLosesLeavesSeats(t *testing.T) {
	inBubble(t, storage.EngineOptions{InFlight: 1}, func(s *gated, c *crowd) {
		c.call(background, "k")
		for range 2000 {
			c.group.Go(func() { _, _ = c.engine.Do(background, []string{"k"}, new(arrival).decide) })
		}
		synctest.Wait()
		s.gate <- struct{}{}
		synctest.Wait()
		s.meddle("k")
		c.call(background, "other")
		s.gate <- struct{}{} // the crowd loses
		synctest.Wait()
		require.Equal(t, []string{"k", "k", "k|other"}, s.trips)
		close(s.gate)
	})
}

// stuck does not answer for one key.
type stuck struct{ storage.Store }

func (s stuck) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if swaps[0].Key == "hangs" {
		<-ctx.Done()
		return nil, false, ctx.Err()
	}
	return s.Store.CompareAndSwap(ctx, swaps...)
}

// How many wait for a key is nothing to those who want others.
func BenchmarkBesideThoseWhoWait(b *testing.B) {
	put := func(_ time.Time, _ [][]byte, next []storage.Change) (bool, error) {
		next[0] = storage.Change{Verb: storage.Put, State: []byte("x")}
		return false, nil
	}
	for _, many := range []int{1, 60_000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			e := storage.NewEngine(stuck{new(memory.Store)}, storage.EngineOptions{Budget: time.Minute})
			ctx, leave := context.WithCancel(background)
			defer leave()
			for range many {
				go func() { _, _ = e.Do(ctx, []string{"hangs"}, put) }()
			}
			for e.Waiting() < many-1 {
				runtime.Gosched()
			}
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if _, err := e.Do(background, []string{strconv.Itoa(i % 3)}, put); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
